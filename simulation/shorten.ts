/**
 * Leaves out as many steps as it can while the run still fails: first large parts, then smaller ones, at most so many tries.
 */
export async function shorten<Step>(
  steps: readonly Step[],
  fails: (steps: readonly Step[]) => Promise<boolean>,
  mostTries: number,
): Promise<readonly Step[]> {
  let kept = steps;
  let tries = 0;
  for (let size = Math.ceil(kept.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < kept.length && tries < mostTries; ) {
      const fewer = [...kept.slice(0, at), ...kept.slice(at + size)];
      tries += 1;
      if (await fails(fewer)) kept = fewer;
      else at += size;
    }
  }
  return kept;
}
