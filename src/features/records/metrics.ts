import { Counter, type Registry } from 'prom-client';

export function recordMetrics(registers: Registry[]) {
  return {
    memberCacheHits: new Counter({
      name: 'handoff_member_cache_hits_total',
      help: 'Reads of one member answered from the shared cache.',
      registers,
    }),
    memberCacheMisses: new Counter({
      name: 'handoff_member_cache_misses_total',
      help: 'Reads of one member that missed the shared cache.',
      registers,
    }),
  };
}

export type RecordMetrics = ReturnType<typeof recordMetrics>;
