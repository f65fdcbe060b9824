import { randomUUID } from 'node:crypto';

/** The body that makes a quote or a booking. */
export function recordFor(memberId: string, change: object = {}) {
  const record = { trip_id: randomUUID(), member_id: memberId, name: 'Casa Olivo', source: 'x', details: {} };
  return { ...record, ...change };
}
