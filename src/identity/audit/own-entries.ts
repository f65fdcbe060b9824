import { monotonicMs } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';

interface Rate {
  burst: number;
  perSecond: number;
}

const ofOne: Rate = { burst: 5000, perSecond: 1 };
const ofAll: Rate = { burst: 20_000, perSecond: 2 };
const mostOwners = 10_000;

interface Left {
  entries: number;
  /** By `monotonicMs()`. */
  at: number;
}

/**
 * Which attempts are stored one by one: of each consumer or network a burst of 5,000 and one a second, of all together 20,000 and
 * two a second. So the table grows by a known amount, however many requests come.
 */
export class OwnEntries {
  readonly #all: Left = full(ofAll);
  readonly #owners = new Map<string, Left>();

  take(owner: string): boolean {
    const own = this.#owners.get(owner) ?? this.#begin(owner);
    if (!hasOne(own, ofOne) || !hasOne(this.#all, ofAll)) return false;
    own.entries -= 1;
    this.#all.entries -= 1;
    return true;
  }

  #begin(owner: string): Left {
    const own = full(ofOne);
    this.#owners.set(owner, own);
    forgetOldest(this.#owners, mostOwners);
    return own;
  }
}

function full({ burst }: Rate): Left {
  return { entries: burst, at: monotonicMs() };
}

function hasOne(left: Left, { burst, perSecond }: Rate): boolean {
  const at = monotonicMs();
  left.entries = Math.min(burst, left.entries + ((at - left.at) / 1000) * perSecond);
  left.at = at;
  return left.entries >= 1;
}
