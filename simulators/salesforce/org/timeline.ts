import type { Field, Row } from './schema.ts';
import { foldFor } from './schema.ts';

/** The rows of one object in the order CreatedDate, key, Id; nulls first. */
export interface Timeline {
  /** The field between CreatedDate and Id, the object's external id. */
  key: Field | undefined;
  rows: readonly Row[];
  /** Rows without a key: with none, ascending order read backwards is descending order. */
  keyless(): number;
  replace(before: Row | undefined, after: Row | undefined): void;
  /** Index of the first row created at `instant` or later. */
  firstAt(instant: string): number;
  /** Index of the first row created after `instant`. */
  firstAfter(instant: string): number;
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Index of the first row for which `isBefore` is false, given that it is true for all rows up to there. */
function lowerBound(rows: readonly Row[], isBefore: (row: Row) => boolean): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle];
    if (row !== undefined && isBefore(row)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Keeps the order that lists are read in, so that a page costs its own length instead of a sort of all rows.
 * @param key the external id that breaks ties; text in its own case rule.
 */
export function createTimeline(key: Field | undefined): Timeline {
  const rows: Row[] = [];
  const fold = key === undefined ? undefined : foldFor(key);
  let keyless = 0;

  const keyOf = (row: Row): string => {
    const value = key === undefined ? undefined : row[key.name];
    return value === undefined ? '' : String(fold?.(value));
  };
  const compare = (a: Row, b: Row): number =>
    compareText(String(a.CreatedDate), String(b.CreatedDate)) ||
    compareText(keyOf(a), keyOf(b)) ||
    compareText(a.Id, b.Id);
  const hasNoKey = (row: Row): boolean => key !== undefined && row[key.name] === undefined;

  const insert = (row: Row): void => {
    const last = rows.at(-1);
    if (last === undefined || compare(last, row) < 0) rows.push(row);
    else
      rows.splice(
        lowerBound(rows, (other) => compare(other, row) < 0),
        0,
        row,
      );
    if (hasNoKey(row)) keyless += 1;
  };
  const remove = (row: Row): void => {
    rows.splice(
      lowerBound(rows, (other) => compare(other, row) < 0),
      1,
    );
    if (hasNoKey(row)) keyless -= 1;
  };

  return {
    key,
    rows,
    keyless: () => keyless,
    replace: (before, after) => {
      if (before !== undefined) remove(before);
      if (after !== undefined) insert(after);
    },
    firstAt: (instant) => lowerBound(rows, (row) => String(row.CreatedDate) < instant),
    firstAfter: (instant) => lowerBound(rows, (row) => String(row.CreatedDate) <= instant),
  };
}
