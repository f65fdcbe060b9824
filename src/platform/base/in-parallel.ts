/**
 * Does the work for each item, by so many workers at once. A worker ends with its first failure; throws one of the failures
 * once all workers have ended.
 */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) await work(item);
  };
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, worker);
  const outcomes = await Promise.allSettled(workers);
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason as Error;
}
