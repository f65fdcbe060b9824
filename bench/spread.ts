/** What several rounds gave. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

/** Throws `RangeError` without values. */
export function spreadOf(values: number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const [min] = sorted;
  const max = sorted.at(-1);
  if (min === undefined || max === undefined) throw new RangeError('no values');
  const upper = sorted[Math.floor(sorted.length / 2)] ?? max;
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? min;
  return { median: (lower + upper) / 2, min, max };
}

/** Spread of what each two values of one round give: noise that lasts longer than a round strikes both. */
export function spreadOfPairs(
  left: number[],
  right: number[],
  combine: (l: number, r: number) => number,
): Spread {
  return spreadOf(left.map((value, round) => combine(value, right[round] ?? Number.NaN)));
}

export const ratio = (left: number, right: number): number => left / right;
export const difference = (left: number, right: number): number => left - right;
