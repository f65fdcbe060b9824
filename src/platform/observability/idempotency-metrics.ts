import { Counter, type Registry } from 'prom-client';

export function idempotencyMetrics(registers: Registry[]) {
  return {
    idempotencyOutcomes: new Counter({
      name: 'handoff_idempotency_outcomes_total',
      help: 'Keyed requests by their outcome in the ledger.',
      labelNames: ['outcome'] as const,
      registers,
    }),
    idempotencyStoredBytes: new Counter({
      name: 'handoff_idempotency_stored_bytes_total',
      help: 'Bytes of answers that were stored for repeats, as they are stored: long ones compressed.',
      registers,
    }),
  };
}
