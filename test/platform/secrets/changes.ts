/** `next()` resolves at the first call after it was asked, and fails after a minute. */
export function recordChanges() {
  let notify: (() => void) | undefined;
  return {
    changed: () => notify?.(),
    next: () =>
      new Promise<void>((resolve, reject) => {
        // Not unref'd: while the test waits, nothing else may keep the process alive.
        const timer = setTimeout(() => reject(new Error('no change was reported within a minute')), 60_000);
        notify = () => {
          clearTimeout(timer);
          notify = undefined;
          resolve();
        };
      }),
  };
}
