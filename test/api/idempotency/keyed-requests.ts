import { randomUUID } from 'node:crypto';

/** A request that nobody sent before. */
export function newRequest() {
  return {
    consumerId: 'con_test',
    key: randomUUID(),
    operation: 'createQuote',
    fingerprint: Buffer.alloc(32, 1),
    externalId: randomUUID(),
  };
}
