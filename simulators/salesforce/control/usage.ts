/** Metered calls of the last 24 hours. */
export interface Usage {
  used(): number;
  add(calls: number): void;
  reset(): void;
}

const HOUR_MS = 3_600_000;
const HOURS = 24;

/** A rolling day in whole hours (Salesforce limits, API Request Limits and Allocations). */
export function createUsage(): Usage {
  let hours: { hour: number; calls: number }[] = [];
  let total = 0;

  const forget = (hour: number): void => {
    while (hours[0] !== undefined && hours[0].hour <= hour - HOURS) total -= hours.shift()?.calls ?? 0;
  };
  const current = (): number => Math.floor(Date.now() / HOUR_MS);

  return {
    used: () => {
      forget(current());
      return total;
    },
    add: (calls) => {
      const hour = current();
      const last = hours.at(-1);
      if (last?.hour === hour) last.calls += calls;
      else hours.push({ hour, calls });
      total += calls;
      forget(hour);
    },
    reset: () => {
      hours = [];
      total = 0;
    },
  };
}
