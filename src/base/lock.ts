/** Locks that processes take from each other, in a store that they share. Methods throw while the store is away. */
export interface Locks {
  /** Takes the lock for at most `ttlMs`, or returns undefined at once when somebody has it. */
  acquireLock(key: string, ttlMs: number): Promise<Lock | undefined>;
}

export interface Lock {
  /** Grows with every acquisition of this key: a holder with a smaller fence has been replaced. */
  readonly fence: number;
  /** Whether this holder still has it. */
  isHeld(): Promise<boolean>;
  /** Gives it back if it is still ours; never takes it from a later holder. */
  release(): Promise<void>;
}
