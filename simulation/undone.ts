/** Fixes of faults that were found from outside, each as the change that takes it back. The simulation has to miss them. */
export interface Undone {
  /** Path of the module in `src`. */
  file: string;
  /** Stands in it once. */
  now: string;
  before: string;
  /** What went wrong without it. */
  fault: string;
}

export const undone: Readonly<Record<string, Undone>> = {};
