/** `next()` resolves at the first call after it was asked, and fails after five seconds. */
export function recordChanges() {
  let notify: (() => void) | undefined;
  return {
    changed: () => notify?.(),
    next: () =>
      new Promise<void>((resolve, reject) => {
        // Not unref'd: while the test waits, nothing else may keep the process alive.
        const timer = setTimeout(() => reject(new Error('no change was reported within 5 s')), 5000);
        notify = () => {
          clearTimeout(timer);
          notify = undefined;
          resolve();
        };
      }),
  };
}
