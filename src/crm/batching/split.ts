import type { CrmFailure } from '../failure.ts';
import { isOverLimit } from '../rest/errors.ts';
import { isOfRecords } from '../rest/retry.ts';
import type { ItemOutcome } from './operation.ts';

/*
 * An exception in a trigger, a limit or a lock fails every record of a call, and the answer does not say which record caused
 * it. So records that were refused together are sent again in halves, until the faulty one is sent alone. The result of a
 * call with one record is that of the record; success is final in a call of any size.
 *
 *   refused    groups that were refused together. The first half of each is sent. If it succeeds, the fault is in the second
 *              half, and no call is needed to show that. If it is refused, the second half becomes untested.
 *   untested   records of which nothing is known. They are sent together in every third round, and when nothing else is left.
 *
 * One faulty record of 200 takes eight calls until it is sent alone, and three for the others. With several, groups are
 * halved in parallel. With many, no more records are sent together than there are between two faulty ones on average.
 */

const sentAtOnce = 8;
/** Untested records are sent in one of this many rounds. */
const roundsBetweenUntested = 3;
/** Calls that a batch may need beyond one for each of its records; as they are used up, records are sent one by one. */
const furtherCalls = 50;

export interface Verdict<Result> {
  outcome: ItemOutcome<Result>;
  again?: 'alone' | 'parts' | undefined;
}

interface SplitOptions<Item, Result> {
  send(items: readonly Item[]): Promise<Verdict<Result>[]>;
  settle(index: number, outcome: ItemOutcome<Result>): void;
  pause?: ((failure: CrmFailure) => Promise<unknown>) | undefined;
}

interface Entry<Item> {
  item: Item;
  index: number;
  failure?: CrmFailure;
}

interface Group<Item> {
  entries: Entry<Item>[];
  isRefused: boolean;
}

type Part<Item> = Group<Item> & { others: Entry<Item>[] };

/**
 * Sends items of one call again, by their `verdicts`, until each has a final outcome. If the call failed because it was too
 * large, returns how many items succeeded together; otherwise undefined.
 */
export function splitUp<Item, Result>(
  items: readonly Item[],
  verdicts: readonly Verdict<Result>[],
  options: SplitOptions<Item, Result>,
): Promise<number | undefined> {
  return new Splitting(options).run(items, verdicts);
}

class Splitting<Item, Result> {
  readonly #options: SplitOptions<Item, Result>;
  readonly #refused: Group<Item>[] = [];
  #untested: Entry<Item>[] = [];
  #total = 0;
  #callsLeft = 0;
  #settled = 0;
  #failed = 0;
  #faulty = 0;
  #passed = 0;
  #mostBySize = Number.POSITIVE_INFINITY;
  #mayBeSize = true;

  constructor(options: SplitOptions<Item, Result>) {
    this.#options = options;
  }

  async run(items: readonly Item[], verdicts: readonly Verdict<Result>[]): Promise<number | undefined> {
    const { refused, isOwn } = this.#take(
      items.map((item, index) => ({ item, index })),
      verdicts,
    );
    this.#total = items.length;
    this.#mayBeSize = refused.length === items.length;
    this.#callsLeft = refused.length + this.#refused.length + furtherCalls;
    const failures = refused.flatMap(({ failure }) => failure ?? []);
    const passing = failures.find(isOfRecords);
    // Sent together once more: after a transient failure, or beside items with faults of their own; after a limit, in two parts.
    this.#keep(refused, isOwn || passing !== undefined || failures.some(isOverLimit));
    if (passing !== undefined) await this.#options.pause?.(passing);
    for (let round = 1; this.#refused.length + this.#untested.length > 0; round++) {
      await Promise.all(this.#next(round).map((part) => this.#send(part)));
    }
    const isSize = this.#mayBeSize && this.#failed === 0 && this.#passed < items.length;
    return isSize ? this.#passed : undefined;
  }

  #next(round: number): Part<Item>[] {
    const most = this.#mostTogether;
    const parts = this.#refused.splice(0, sentAtOnce).map(({ entries, isRefused }): Part<Item> => {
      const half = Math.min(Math.ceil(entries.length / 2), most);
      return { entries: entries.slice(0, half), isRefused, others: entries.slice(half) };
    });
    const isDue = parts.length === 0 || round % roundsBetweenUntested === 0;
    // One part beside refused groups: if it has a faulty record as well, further parts would probably be refused too.
    const upTo = parts.length === 0 ? sentAtOnce : parts.length + 1;
    while (isDue && this.#untested.length > 0 && parts.length < upTo)
      parts.push({ entries: this.#untested.splice(0, most), isRefused: false, others: [] });
    this.#callsLeft -= parts.length;
    return parts;
  }

  get #mostTogether(): number {
    const open = this.#total - this.#settled;
    if (this.#callsLeft - open <= sentAtOnce) return 1;
    const bySize = Math.max(this.#mostBySize, this.#passed, 1);
    if (this.#faulty < 2) return bySize;
    return Math.min(bySize, Math.max(1, Math.floor(this.#settled / this.#faulty)));
  }

  async #send({ entries, others, isRefused }: Part<Item>): Promise<void> {
    const verdicts = await this.#options.send(entries.map(({ item }) => item));
    const { refused, isOwn } = this.#take(entries, verdicts);
    this.#keep(refused, isOwn);
    const hasPassed = refused.length === 0 && !isOwn;
    if (hasPassed) this.#passed = Math.max(this.#passed, entries.length);
    if (entries.length === 1) this.#learnFromOne(hasPassed, isRefused);
    if (others.length === 0) return;
    // If this part succeeded, the fault is in the others; otherwise nothing is known of them.
    if (hasPassed) this.#refused.push({ entries: others, isRefused: true });
    else this.#untested.push(...others);
  }

  #learnFromOne(hasPassed: boolean, wasRefused: boolean): void {
    if (!hasPassed) this.#faulty += 1;
    // A group was refused, and none of its records is faulty: it was too large.
    else if (wasRefused && this.#mayBeSize) this.#mostBySize = this.#passed;
  }

  #take(entries: readonly Entry<Item>[], verdicts: readonly Verdict<Result>[]) {
    const refused: Entry<Item>[] = [];
    let isOwn = false;
    for (const [at, entry] of entries.entries()) {
      const { outcome, again } = verdicts[at] as Verdict<Result>;
      const failure = 'failure' in outcome ? outcome.failure : undefined;
      if (failure === undefined || again === undefined || entries.length === 1) {
        this.#settle(entry, outcome);
        isOwn ||= failure !== undefined;
      } else if (again === 'alone')
        this.#refused.push({ entries: [{ ...entry, failure }], isRefused: false });
      else refused.push({ ...entry, failure });
    }
    return { refused, isOwn };
  }

  #keep(refused: Entry<Item>[], asUntested: boolean): void {
    const failure = refused[0]?.failure;
    if (failure === undefined) return;
    if (isOverLimit(failure)) this.#mostBySize = Math.ceil(refused.length / 2);
    else if (failure.kind !== 'rejected') this.#mayBeSize = false;
    if (asUntested) this.#untested.push(...refused);
    else this.#refused.push({ entries: refused, isRefused: true });
  }

  #settle({ index }: Entry<Item>, outcome: ItemOutcome<Result>): void {
    this.#settled += 1;
    if ('failure' in outcome) this.#failed += 1;
    this.#options.settle(index, outcome);
  }
}
