/**
 * What this tab remembers of what somebody has seen and typed, by name: names of members, lists as they were left, a trip. It
 * is gone when they sign out; where the service signs them out, the same consumer finds it again.
 */
export type Memory = Map<string, unknown>;

/** What is remembered under this name, else what `begin` makes from now on. */
export function recall<T>(memory: Memory, name: string, begin: () => T): T {
  if (!memory.has(name)) memory.set(name, begin());
  return memory.get(name) as T;
}
