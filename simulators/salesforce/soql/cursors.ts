import type { QueryResult } from './run.ts';

export interface CursorStore {
  /** Keeps the rest of a result; the locator names it until it expires or is pushed out. */
  open(result: QueryResult): string;
  find(locator: string): QueryResult | undefined;
  clear(): void;
}

const LIFETIME_MS = 2 * 24 * 3600 * 1000;
const MAX_CURSORS = 100;

/** Open query cursors. They live two days (SOQL limits); the oldest goes where too many are open. */
export function createCursorStore(): CursorStore {
  const cursors = new Map<string, { result: QueryResult; opened: number }>();
  let sequence = 0;
  return {
    open: (result) => {
      const oldest = cursors.keys().next().value;
      if (cursors.size >= MAX_CURSORS && oldest !== undefined) cursors.delete(oldest);
      sequence += 1;
      const locator = `01gRO${String(sequence).padStart(10, '0')}YAC`;
      cursors.set(locator, { result, opened: Date.now() });
      return locator;
    },
    find: (locator) => {
      const cursor = cursors.get(locator);
      return cursor !== undefined && Date.now() - cursor.opened < LIFETIME_MS ? cursor.result : undefined;
    },
    clear: () => cursors.clear(),
  };
}
