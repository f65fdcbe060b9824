import { monotonicMs } from '../../platform/base/chance.ts';
import { mostHeavyParts } from '../budget/waiters.ts';
import type { Permit } from '../rest/request.ts';
import type { CrmClient } from '../rest/rest-client.ts';
import { CallDivision } from './call-division.ts';
import { MixedCall } from './mixed-call.ts';
import { largestBatch, mostBytes } from './object-size.ts';

/** After a call that was too much, each batch has calls of its own for so long. */
const pauseMs = 60_000;

type Client = Pick<CrmClient, 'budget' | 'exchange' | 'dataPath' | 'writeHeaders'>;

/** What a batch takes in a call that several kinds share. */
export interface MixedKind {
  /** Under which its query is put together with those of others; undefined where it has none. */
  rows: string | undefined;
  isWrite: boolean;
}

/** What may still be put into a call. */
export interface Capacity {
  records: number;
  bytes: number;
  division: CallDivision;
}

/** A batch that was drawn for a call. */
export interface DrawnBatch {
  consumers: (string | undefined)[];
  bytes: number;
  execute(permit: Permit): Promise<unknown>;
}

/** A batcher whose batches may go with those of others. */
export interface MixingBatcher {
  readonly mixedKind: MixedKind;
  /** Since when its first request waits, by `monotonicMs()`; undefined where it has none for the calls of others. */
  readonly waitsSince: number | undefined;
  /** Lets other replicas add requests. Never throws. */
  invite(): Promise<void>;
  /** Removes what fits from its queue; undefined where nothing does. */
  draw(capacity: Capacity): DrawnBatch | undefined;
}

/** Queries and Collections calls that a call with these batches needs. */
export function heavyPartsOf(kinds: readonly MixedKind[]): number {
  const queries = new Set(kinds.flatMap(({ rows }) => rows ?? []));
  return queries.size + kinds.filter(({ isWrite }) => isWrite).length;
}

/**
 * Puts batches of several kinds into one call while calls of the budget are short: beside the batch that has got the call,
 * those that have waited longest. No more than 200 records of one object, so that its rows fit on a page.
 */
export class Mixing {
  readonly #client: Client;
  readonly #batchers: MixingBatcher[] = [];
  /** By `monotonicMs()`. */
  #pausedUntil = 0;

  constructor(client: Client) {
    this.#client = client;
  }

  register(batcher: MixingBatcher): void {
    this.#batchers.push(batcher);
  }

  /** Those whose batches may go with a call that this one has got. */
  companionsOf(first: MixingBatcher): MixingBatcher[] {
    if (monotonicMs() < this.#pausedUntil) return [];
    const chosen = [first];
    for (const next of inOrder(this.#batchers)) {
      if (
        next !== first &&
        heavyPartsOf([...chosen, next].map(({ mixedKind }) => mixedKind)) <= mostHeavyParts
      )
        chosen.push(next);
    }
    return chosen.slice(1);
  }

  /** Draws batches of these that fit beside the first one. `waiting`: consumers of which it left requests behind. */
  draw(
    companions: readonly MixingBatcher[],
    first: Pick<DrawnBatch, 'consumers' | 'bytes'> & { rows: string | undefined },
    waiting: ReadonlySet<string>,
  ): DrawnBatch[] {
    const division = new CallDivision(this.#client.budget?.parts(), waiting);
    for (const consumer of first.consumers) division.note(consumer ?? '');
    const records = new Map([[first.rows, first.consumers.length]]);
    let bytes = mostBytes - first.bytes;
    return companions.flatMap((companion) => {
      const { rows } = companion.mixedKind;
      const before = rows === undefined ? 0 : (records.get(rows) ?? 0);
      const batch = companion.draw({ records: largestBatch - before, bytes, division });
      if (batch === undefined) return [];
      records.set(rows, before + batch.consumers.length);
      bytes -= batch.bytes;
      return [batch];
    });
  }

  /** The permits of so many batches that share one call. */
  share(permit: Permit, batches: number): Permit[] {
    const onTooMuch = () => {
      this.#pausedUntil = monotonicMs() + pauseMs;
    };
    const call = new MixedCall({ client: this.#client, permit, batches, onTooMuch });
    return Array.from({ length: batches }, () => call.newPermit());
  }
}

/** Those that have something to send: the longest wait first. That of a write counts twice. */
function inOrder(batchers: readonly MixingBatcher[]): MixingBatcher[] {
  const now = monotonicMs();
  const waiting = batchers.flatMap((batcher) => {
    const { waitsSince: since, mixedKind } = batcher;
    return since === undefined ? [] : [{ batcher, waited: (now - since) * (mixedKind.isWrite ? 2 : 1) }];
  });
  return waiting.toSorted((a, b) => b.waited - a.waited).map(({ batcher }) => batcher);
}
