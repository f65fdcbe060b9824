import { WriteBehind } from '../../platform/base/batching.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import type { Log } from '../../platform/observability/log.ts';

export const keptDays = 90;

const batchSize = 500;
const mostWaiting = 50_000;
/** A clock that is set back returns to the period before: its rows must go on from where they were. */
const keptPeriods = 2;

export interface GrowingCountsOptions<Row> {
  /** Stores rows. One may come again, or an older state of it after a newer one. */
  write: (rows: Row[]) => Promise<void>;
  of: string;
  log: Log;
}

/** Rows of counts of the present hour or day, which only grow, and are written to the database each second. */
export class GrowingCounts<Row> {
  readonly #options: GrowingCountsOptions<Row>;
  readonly #unstored: WriteBehind<Row>;
  readonly #rows = new Map<number, Map<string, Row>>();

  constructor(options: GrowingCountsOptions<Row>) {
    this.#options = options;
    const { log, of, write } = options;
    this.#unstored = new WriteBehind({
      write,
      batchSize,
      most: mostWaiting,
      onDropped: (count) =>
        log.warn({ count }, `lost sums of ${of}: the database was unavailable for too long`),
    });
  }

  row(period: number, key: string, start: () => Row): Row {
    const rows = this.#rows.get(period) ?? new Map<string, Row>();
    this.#rows.set(period, rows);
    forgetOldest(this.#rows, keptPeriods);
    const row = rows.get(key) ?? start();
    rows.set(key, row);
    this.#unstored.add(`${period} ${key}`, row);
    return row;
  }

  /** Writes what is counted. Throws what the database does. */
  flush(): Promise<void> {
    return this.#unstored.flush();
  }

  /** Writes what is left. Never throws. */
  async stop(): Promise<void> {
    const { log, of } = this.#options;
    await this.#unstored
      .stop()
      .catch((err: unknown) => log.error({ err }, `couldn't write sums of ${of} to the database`));
  }
}
