/** Locks that processes take from each other, in a store that they share. Methods throw while the store is unavailable. */
export interface Locks {
  /** Takes the lock for at most `ttlMs`, or returns undefined at once when it is held. */
  acquireLock(key: string, ttlMs: number): Promise<Lock | undefined>;
}

export interface Lock {
  /** Grows with every acquisition of this key: a holder with a smaller fence has been replaced. */
  readonly fence: number;
  isHeld(): Promise<boolean>;
  /** Releases it if this holder still has it; never takes it from a later one. */
  release(): Promise<void>;
}
