import { Counter, type Registry } from 'prom-client';

export function cacheMetrics(registers: Registry[]) {
  return {
    cacheRejected: new Counter({
      name: 'handoff_cache_rejected_total',
      help: 'Values and messages in Redis that were ignored, since they have no valid authentication code.',
      registers,
    }),
  };
}
