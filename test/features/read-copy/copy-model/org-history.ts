import { closeSync, openSync, readSync } from 'node:fs';
import { isUuid } from '../../../../src/platform/base/text.ts';

export type Kind = 'quote' | 'member';

type Row = Record<string, string | boolean | undefined> & { Id: string };

/** What the API shows of a record from a change on, as one text; null where it has none. */
interface State {
  shown: string | null;
  /** The trip of a quote. */
  trip: string | undefined;
  /** The number of the change that made it. */
  change: number;
  /** When it was seen to be there, by `performance.now()`: never before it was. */
  seenAt: number;
  /** Of the record that had it. */
  nativeId: string;
  /**
   * The record was removed past the recycle bin before a poll saw that this state was over: the copy may show it until the
   * External ID is looked up, or is another record's.
   */
  isLeft?: boolean;
}

/** What a read may show: the states that were there at some moment of these. */
export interface Moments {
  /** Changes that the org had when the read began, and when it had ended. */
  from: number;
  to: number;
  /** By `performance.now()`: what was over before is too old. Without it, what was over at `from` is. */
  since?: number | undefined;
  /** No state from before this change. */
  floor?: number | undefined;
}

/** All states that the records of a simulated org had, in their order, read from the file that it keeps them in. */
export class OrgHistory {
  readonly #descriptor: number;
  #rest = '';
  /** Transactions so far. */
  #changes = 0;
  readonly #rows = new Map<string, Row>();
  readonly #states = new Map<string, State[]>();
  /** When the last complete poll began, or later. */
  #polledAt = Number.NEGATIVE_INFINITY;

  constructor(dataFile: string) {
    this.#descriptor = openSync(dataFile, 'r');
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** Reads on; how many changes there were by now. */
  look(): number {
    const buffer = Buffer.alloc(1024 * 1024);
    const seenAt = performance.now();
    for (;;) {
      const length = readSync(this.#descriptor, buffer);
      if (length === 0) return this.#changes;
      const lines = (this.#rest + buffer.toString('utf8', 0, length)).split('\n');
      this.#rest = lines.pop() ?? '';
      for (const line of lines) this.#apply(JSON.parse(line) as [string, Row | string][], seenAt);
    }
  }

  /** A poll that began then, or later, is complete. */
  notePoll(at: number): void {
    this.look();
    this.#polledAt = Math.max(this.#polledAt, at);
  }

  /** All External IDs that records ever had. */
  ids(kind: Kind): string[] {
    return [...this.#states.keys()]
      .filter((key) => key.startsWith(`${kind} `))
      .map((key) => key.slice(kind.length + 1));
  }

  statesOf(kind: Kind, id: string): readonly State[] {
    return this.#states.get(`${kind} ${id}`) ?? [];
  }

  /** Undefined where what was found fits; otherwise what was there. Where a trip is given, records of others are not there. */
  explain(kind: Kind, id: string, found: string | null, moments: Moments, trip?: string): string | undefined {
    const seenAt = Number.NEGATIVE_INFINITY;
    const nothing: State = { shown: null, trip: undefined, nativeId: '', change: 0, seenAt };
    const states = [nothing, ...this.statesOf(kind, id)];
    const possible = states.filter((state, index) => {
      const later = states.slice(index + 1);
      if (isPossible(state, later[0], moments)) return true;
      if (!state.isLeft || moments.since === undefined) return false;
      const others = later.find(({ shown, nativeId }) => shown !== null && nativeId !== state.nativeId);
      return isPossible(state, others, moments);
    });
    const shownIn = (state: State) => (trip === undefined || state.trip === trip ? state.shown : null);
    if (possible.some((state) => shownIn(state) === found)) return undefined;
    const now = performance.now();
    const last = states
      .slice(-6)
      .map(({ change, seenAt, shown }) => `    ${change} (${Math.round(seenAt - now)} ms): ${shown}`);
    return [`${kind} ${id} is shown as`, `    ${found}`, `  but was`, ...last].join('\n');
  }

  /** A transaction. */
  #apply(entries: readonly [string, Row | string][], seenAt: number): void {
    this.#changes += 1;
    const touched = new Set<Row>();
    for (const [object, entry] of entries) {
      if (typeof entry === 'string') this.#remove(object, entry, seenAt);
      else for (const row of this.#write(object, entry, seenAt)) touched.add(row);
    }
    for (const row of touched) {
      if (isGone(row) && this.#isHeld(keyOf(row))) continue;
      const shown = isGone(row) ? null : this.#showQuote(row);
      const trip = String(row['Trip_Id__c']);
      this.#note('quote', keyOf(row), { shown, trip, nativeId: row.Id, seenAt });
    }
  }

  /** The quotes that may show something else now. */
  #write(object: string, row: Row, seenAt: number): Row[] {
    const before = this.#rows.get(row.Id);
    this.#rows.set(row.Id, row);
    const naming = [...this.#rows.values()].filter((other) => other['Member__c'] === row.Id);
    if (object === 'Contact') this.#noteMember(before, row, seenAt);
    if (object !== 'Quote__c') return naming;
    const hasLostId = before !== undefined && keyOf(before) !== keyOf(row) && !isGone(before);
    if (hasLostId) this.#note('quote', keyOf(before), nothingOf(row, seenAt));
    return [row, ...naming];
  }

  /** Past the recycle bin, or out of it. */
  #remove(object: string, id: string, seenAt: number): void {
    const row = this.#rows.get(id);
    this.#rows.delete(id);
    if (object !== 'Quote__c' || row === undefined) return;
    for (const states of this.#states.values()) {
      for (const [index, state] of states.entries()) {
        const overAt = states[index + 1]?.seenAt ?? seenAt;
        if (state.nativeId === id && overAt > this.#polledAt) state.isLeft = true;
      }
    }
    if (!isGone(row)) this.#note('quote', keyOf(row), nothingOf(row, seenAt));
  }

  /** Whether another record has the id of one that lies in the recycle bin. */
  #isHeld(key: string): boolean {
    return [...this.#rows.values()].some((row) => 'Trip_Id__c' in row && keyOf(row) === key && !isGone(row));
  }

  #noteMember(before: Row | undefined, row: Row, seenAt: number): void {
    const [from, to] = [before === undefined ? '' : keyOf(before), keyOf(row)];
    if (from !== to) this.#note('member', from, nothingOf(row, seenAt));
    this.#note('member', to, { ...nothingOf(row, seenAt), shown: isGone(row) ? null : showMember(row) });
  }

  #showQuote(row: Row): string {
    const member = this.#rows.get(String(row['Member__c']));
    const memberId = member === undefined || isGone(member) ? null : keyOf(member);
    return JSON.stringify([row['Name__c'], row['Trip_Id__c'], memberId, row['Details__c'], timeOf(row)]);
  }

  #note(kind: Kind, id: string, state: Omit<State, 'change'>): void {
    const states = this.#states.get(`${kind} ${id}`) ?? [];
    if (id === '' || (states.at(-1)?.shown ?? null) === state.shown) return;
    this.#states.set(`${kind} ${id}`, states);
    states.push({ ...state, change: this.#changes });
  }
}

function nothingOf({ Id: nativeId }: Row, seenAt: number): Omit<State, 'change'> {
  return { shown: null, trip: undefined, nativeId, seenAt };
}

function isPossible(state: State, next: State | undefined, { from, to, since, floor = 0 }: Moments): boolean {
  if (state.change > to) return false;
  if (next === undefined) return true;
  if (next.change <= floor) return false;
  return since === undefined ? next.change > from : next.seenAt >= since;
}

function keyOf(row: Row): string {
  const key = row['External_Id__c'];
  return typeof key === 'string' && isUuid(key) ? key.toLowerCase() : '';
}

function isGone(row: Row): boolean {
  return row['IsDeleted'] === true || keyOf(row) === '';
}

function timeOf(row: Row): string {
  return new Date(String(row['LastModifiedDate'])).toISOString();
}

function showMember(row: Row): string {
  return JSON.stringify([row['LastName'], timeOf(row)]);
}

/** A body of the API in the same form; details as they stand in it. */
export function showBody(kind: Kind, text: string): { id: string; shown: string } {
  const body = JSON.parse(text) as Record<string, string>;
  const details = /"details":(\{[^}]*\})/.exec(text)?.[1];
  const { id = '', name, trip_id, member_id, last_name, updated_at } = body;
  const shown = kind === 'quote' ? [name, trip_id, member_id, details, updated_at] : [last_name, updated_at];
  return { id, shown: JSON.stringify(shown) };
}
