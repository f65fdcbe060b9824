import type { ChangedRecord, ChangePosition } from '../records/changes.ts';
import type { Resource } from '../records/resource.ts';

/** Queries in a Composite call at most (Salesforce's REST guide, Composite). */
const mostQueries = 5;
/** Target fill of a window: the windows after a full one have to be read again. */
const fullness = 0.8;

export interface ChangeWindow {
  resource: Resource;
  position: ChangePosition;
  before?: string;
}

export interface ReadWindow extends ChangeWindow {
  records: readonly ChangedRecord[];
  isWhole: boolean;
}

/**
 * Splits what is left to read into as many queries as a call may have, since a call costs the same with one query as with
 * five. The resource of which most was changed last gets several, one behind the other in time: as wide as its last full
 * page was. Where that was too wide, the windows behind a full one are read again.
 */
export class ChangeWindows {
  /** Milliseconds that a row took, by the last full page. */
  readonly #msPerRow = new Map<Resource, number>();

  /**
   * `limit`: rows of a query at most. `now`: by the CRM's clock, in milliseconds since 1970. `queriesOf`: how many queries
   * a window of the resource needs.
   */
  split(
    positions: ReadonlyMap<Resource, ChangePosition>,
    limit: number,
    now: number,
    queriesOf: (resource: Resource) => number = () => 1,
  ): ChangeWindow[] {
    const busiest = this.#busiest(positions);
    const taken = [...positions.keys()].reduce((sum, resource) => sum + queriesOf(resource), 0);
    const spare = busiest === undefined ? 0 : Math.floor((mostQueries - taken) / queriesOf(busiest));
    return [...positions].flatMap(([resource, position]) => {
      const widthMs = fullness * limit * (this.#msPerRow.get(resource) ?? 0);
      return resource === busiest && widthMs >= 1000
        ? inWindows({ resource, position }, widthMs, spare, now)
        : [{ resource, position }];
    });
  }

  /**
   * The records up to the first window of each resource that is not whole, each record once and as it was read last; and
   * the resources of which nothing is left.
   */
  join(windows: readonly ReadWindow[]): { records: ChangedRecord[]; complete: Set<Resource> } {
    const complete = new Set(windows.map(({ resource }) => resource));
    const byId = new Map<string, ChangedRecord>();
    for (const { resource, records, isWhole } of windows) {
      if (!complete.has(resource)) continue;
      for (const record of records) {
        byId.delete(record.nativeId);
        byId.set(record.nativeId, record);
      }
      if (isWhole) continue;
      complete.delete(resource);
      this.#learn(resource, records);
    }
    return { records: [...byId.values()], complete };
  }

  #busiest(positions: ReadonlyMap<Resource, ChangePosition>): Resource | undefined {
    const known = [...positions.keys()].filter((resource) => this.#msPerRow.has(resource));
    return known.sort((a, b) => (this.#msPerRow.get(a) ?? 0) - (this.#msPerRow.get(b) ?? 0))[0];
  }

  #learn(resource: Resource, records: readonly ChangedRecord[]): void {
    const [first, last] = [records[0], records.at(-1)];
    if (first && last)
      this.#msPerRow.set(resource, (Date.parse(last.stamp) - Date.parse(first.stamp)) / records.length);
    // The next call asks for it with one query: else it would ask for the same empty window again.
    else this.#msPerRow.delete(resource);
  }
}

function inWindows(
  { resource, position }: ChangeWindow,
  widthMs: number,
  spare: number,
  now: number,
): ChangeWindow[] {
  const windows: ChangeWindow[] = [];
  let from = position;
  for (let end = Date.parse(position.stamp); windows.length < spare; ) {
    end = Math.floor((end + widthMs) / 1000) * 1000;
    if (end >= now) break;
    const before = new Date(end).toISOString();
    windows.push({ resource, position: from, before });
    from = { stamp: before };
  }
  return [...windows, { resource, position: from }];
}
