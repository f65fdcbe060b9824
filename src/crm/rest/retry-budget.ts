/** A repeat for so many calls: where the CRM is in trouble, repeats must not become the trouble. */
const shareOfCalls = 0.1;
/** With few calls, this many repeats a second all the same, and so many at once. */
const eachSecond = 5;
const most = 25;

/** What may be spent on repeats, over all calls. */
export interface RetryBudget {
  /** A call was made. */
  earn(): void;
  /** Takes one repeat out of the budget; false where there is none left. */
  spend(): boolean;
}

export function createRetryBudget(now: () => number = () => performance.now()): RetryBudget {
  let balance = most;
  let at = now();
  const add = (repeats: number) => {
    balance = Math.min(most, balance + repeats);
  };
  return {
    earn: () => add(shareOfCalls),
    spend() {
      const moment = now();
      add(((moment - at) / 1000) * eachSecond);
      at = moment;
      if (balance < 1) return false;
      balance -= 1;
      return true;
    },
  };
}
