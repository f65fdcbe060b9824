import { Counter, type Registry } from 'prom-client';

/** Metrics of the cache that all replicas share. */
export function cacheMetrics(registers: Registry[]) {
  return {
    memberCacheHits: new Counter({
      name: 'handoff_member_cache_hits_total',
      help: 'Reads of one member that were answered from the shared cache.',
      registers,
    }),
    memberCacheMisses: new Counter({
      name: 'handoff_member_cache_misses_total',
      help: 'Reads of one member that were not in the shared cache.',
      registers,
    }),
    cacheRejected: new Counter({
      name: 'handoff_cache_rejected_total',
      help: 'Values and messages in Redis that were ignored, since they have no valid authentication code.',
      registers,
    }),
  };
}
