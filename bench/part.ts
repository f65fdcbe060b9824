import type { FigureName } from './figures.ts';
import type { Harness } from './harness.ts';
import type { Table } from './report.ts';
import type { Spread } from './spread.ts';

export interface PartResult {
  tables: Table[];
  figures: Partial<Record<FigureName, Spread>>;
}

export interface PartOptions {
  /** The part starts on it what it needs; stopped after the part. */
  harness: Harness;
  rounds: number;
  /** Of each measurement in each round. */
  seconds: number;
  /** Nothing is fetched from a registry. */
  offline: boolean;
  /** Clients at once against a slow CRM. */
  clients: number;
  /** Consumers of the largest directory. */
  consumers: number;
}

export type Part = (options: PartOptions) => Promise<PartResult>;
