import type { FigureName } from './figures.ts';
import type { Spread } from './spread.ts';
import type { Stage } from './stage.ts';

/** A spread prints as median and, in brackets, least and most; `undefined` as a dash. */
export type Cell = string | number | Spread | undefined;

export interface Table {
  title: string;
  /** What a reader must know to read it, a sentence each. */
  notes: string[];
  /** All with the same members, in the order of the columns. */
  rows: Record<string, Cell>[];
}

export interface PartResult {
  tables: Table[];
  figures: Partial<Record<FigureName, Spread>>;
}

export interface PartOptions {
  /** The part starts on it what it needs; stopped after the part. */
  stage: Stage;
  rounds: number;
  /** Of each measurement in each round. */
  seconds: number;
  /** Nothing is fetched from a registry. */
  offline: boolean;
  /** Consumers of the largest directory. */
  consumers: number;
}

export type Part = (options: PartOptions) => Promise<PartResult>;
