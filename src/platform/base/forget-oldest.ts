/** Deletes the oldest entries, in the order in which they were added, until there are `most`. */
export function forgetOldest(entries: Map<unknown, unknown> | Set<unknown>, most: number): void {
  for (const key of entries.keys()) {
    if (entries.size <= most) return;
    entries.delete(key);
  }
}
