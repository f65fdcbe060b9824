import type { ChangedRecord, ChangePosition } from '../../records/changes.ts';
import type { Resource } from '../../records/resource.ts';
import type { Chunk, Positions } from './reader-table.ts';

/** The CRM's clock and its stamps may differ by this much, in milliseconds. */
const clockMarginMs = 60_000;

interface ReadPlanOptions {
  resources: readonly Resource[];
  positions: ReadonlyMap<string, Positions>;
  isLong: boolean;
  lookBackMs: number;
  lookFarBackMs: number;
}

/**
 * Where one poll reads, and what its positions become. A record that becomes visible behind the position that this poll has
 * read to is found by later ones: they look back from where this poll began. So no position passes that moment, however
 * long the poll takes.
 */
export class ReadPlan {
  readonly #isLong: boolean;
  readonly #left: Map<Resource, ChangePosition>;
  readonly #ahead: ReadonlyMap<Resource, string>;
  #beganAt = 0;

  constructor({ resources, positions, isLong, lookBackMs, lookFarBackMs }: ReadPlanOptions) {
    this.#isLong = isLong;
    const lookBack = isLong ? lookFarBackMs : lookBackMs;
    this.#left = new Map(
      resources.map((resource) => {
        const position = positions.get(resource.name);
        const from = ((isLong ? position?.readLateTo : position?.readTo) ?? 0) - lookBack;
        return [resource, { stamp: new Date(Math.floor(Math.max(0, from) / 1000) * 1000).toISOString() }];
      }),
    );
    this.#ahead = new Map(
      [...this.#left].map(([resource, { stamp }]) => [
        resource,
        new Date(Date.parse(stamp) + 2 * lookBack).toISOString(),
      ]),
    );
  }

  get left(): ReadonlyMap<Resource, ChangePosition> {
    return this.#left;
  }

  /**
   * Whether the rest can be left to the next poll. It looks back from here, so that one which ends earlier would be
   * followed by others that read the same for ever, where very much has changed within moments.
   */
  get isAhead(): boolean {
    return [...this.#left].every(
      ([resource, { stamp }]) => Date.parse(stamp) >= Date.parse(this.#ahead.get(resource) ?? ''),
    );
  }

  begin(at: number): void {
    this.#beganAt = at;
  }

  advance(records: readonly ChangedRecord[]): Chunk['positions'] {
    const positions: Chunk['positions'] = new Map();
    for (const { resource, stamp, nativeId } of records) {
      this.#left.set(resource, { stamp, nativeId });
      positions.set(resource.name, this.#position(Math.min(Date.parse(stamp), this.#beganAt)));
    }
    return positions;
  }

  complete(resources: ReadonlySet<Resource>): Chunk['positions'] {
    const positions: Chunk['positions'] = new Map();
    for (const resource of resources) {
      this.#left.delete(resource);
      // Where nothing changes, what changed last must not be read for ever.
      positions.set(resource.name, this.#position(this.#beganAt - clockMarginMs));
    }
    return positions;
  }

  #position(to: number) {
    return { readTo: to, readLateTo: this.#isLong ? to : null };
  }
}
