/** In one unit. */
interface Pauses {
  first: number;
  most: number;
  /** Growth with each further one; 2 where it is left out. */
  factor?: number;
}

/** The pause after so many failures in a row, 1 or more, in the unit of `first`. */
export function pauseAfter(failures: number, { first, most, factor = 2 }: Pauses): number {
  // Beyond that `most` is long reached, and numbers would become infinite.
  return Math.min(most, first * factor ** Math.min(failures - 1, 40));
}
