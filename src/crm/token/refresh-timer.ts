import type { Log } from '../../observability/log.ts';

/** How often the token's expiry is checked. */
const checkIntervalMs = 60_000;

/** First wait after a failed refresh; doubled for each further one, up to the interval. */
const firstRetryMs = 1000;

export interface RefreshTimer {
  start(): void;
  stop(): void;
}

/** Calls `refreshIfDue` every minute, and sooner after a failure: with exponential back-off and full jitter. */
export function createRefreshTimer(options: { refreshIfDue: () => Promise<void>; log: Log }): RefreshTimer {
  let timer: NodeJS.Timeout | undefined;
  let failures = 0;

  const schedule = (waitMs: number) => {
    timer = setTimeout(() => void check(), waitMs);
    timer.unref();
  };

  const check = async () => {
    const own = timer;
    try {
      await options.refreshIfDue();
      failures = 0;
    } catch (err) {
      failures += 1;
      options.log.debug({ err, failures }, 'The check of the CRM token failed');
    }
    // Stopped, or stopped and started again, while the check ran: this round ends here.
    if (timer === own) schedule(failures === 0 ? checkIntervalMs : retryMs(failures));
  };

  return {
    start: () => schedule(checkIntervalMs),
    stop() {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}

function retryMs(failures: number): number {
  const longest = Math.min(checkIntervalMs, firstRetryMs * 2 ** Math.min(failures - 1, 10));
  return firstRetryMs / 2 + Math.random() * longest;
}
