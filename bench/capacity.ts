import { fileURLToPath } from 'node:url';
import { limitsOf } from '../src/crm/budget/bucket.ts';

/*
 * The model of docs/capacity.md: `node bench/capacity.ts` prints its tables. test/bench/capacity.test.ts checks it against a simulation
 * and against the page.
 */

/** On two cores of a slow machine: bench/last-run.md needed a little over half of it. */
const measured = {
  /** Processor time of the gateway for a read, and for a keyed write, gathered with others; in seconds. */
  read: 0.00026,
  write: 0.00074,
  /** What a process may use of a core before answers get slow. */
  busy: 0.6,
};
/** Keyed writes a process claims in one statement at most; as many statements of a kind are in flight as the second says. */
const writesInStatement = 100;
/** Requests of one resource in a call at most, and those that are worth one. */
const largestBatch = 200;
const batchSize = 50;
/**
 * Bytes of a request in the log, and of a row in PostgreSQL with its indexes: 2,000 keyed hand-offs with details of 1.6 kB,
 * events and the copy on, tables rewritten by `vacuum full` before they were measured (24 November 2026).
 */
const bytes = { log: 408, attempt: 489, claim: 580, event: 1578, known: 594, copied: 3161 };
const latency = 0.15;
const linger = latency / 8;
const day = 86_400;

/** Calls a second for requests of one kind that come at random to so many replicas; no budget. */
export function callsFor(perSecond: number, replicas = 1): number {
  const rate = perSecond / replicas;
  if (rate === 0) return 0;
  const gathered = Math.max(1 / (linger + 1 / rate), rate / batchSize);
  return replicas * Math.min(rate, gathered);
}

export interface UnderBudget {
  /** Calls a second, all together. */
  calls: number;
  /** Of these requests a second so many are served. */
  reads: number;
  writes: number;
  /** The longest wait of a write that is served, in seconds, the call itself left out. */
  writeWait: number;
}

/** What a budget whose burst is used up makes of reads and writes of one resource, which share calls. */
export function underBudget(reads: number, writes: number, dailyCalls: number, maxWait = 2): UnderBudget {
  const { rate } = limitsOf(dailyCalls, maxWait * 1000);
  const calls = rate * 1000;
  const each = 1 / calls;
  const most = calls * largestBatch;
  // Beside reads they have every second call, unless they would then wait for more than half of `maxWait`: then all of them.
  const forWrites = reads > 0 && each <= maxWait / 2 ? 1 / 2 : 1;
  // Of more writes some wait so long that reads have no call of their own any more.
  const longestWait = writes <= forWrites * most ? each / forWrites : maxWait;
  const servedWrites = Math.min(writes, most);
  return {
    calls,
    reads: Math.min(reads, most - servedWrites),
    writes: servedWrites,
    writeWait: writes === 0 ? 0 : longestWait,
  };
}

/** Processes for so many requests a second, one core each. */
export function processesFor(reads: number, writes: number): number {
  return Math.ceil((reads * measured.read + writes * measured.write) / measured.busy);
}

function loadRow(requests: number) {
  const [reads, writes] = [requests * 0.9, requests * 0.1];
  const processes = processesFor(reads, writes);
  const calls = callsFor(reads, processes) + callsFor(writes, processes);
  const statements = 2 * Math.max(callsPerStatement(writes, processes), writes / writesInStatement);
  return {
    'requests a second': requests,
    processes,
    'Salesforce calls a day': calls * day,
    'PostgreSQL statements a second': statements,
  };
}

/** Claims that come while a statement of 2 ms runs share the next; four run at once. */
function callsPerStatement(writes: number, processes: number): number {
  return Math.min(writes, processes * 4 * (1 / 0.002));
}

function orgRow(users: number) {
  const quota = 100_000 + 1000 * users;
  const budget = Math.floor((quota * 2) / 3);
  const { calls, writeWait } = underBudget(1, 1, budget);
  return {
    users,
    'calls a day': quota,
    budget,
    'calls a second': calls,
    'requests a second': calls * largestBatch,
    'longest wait of a write s': writeWait,
  };
}

/** Rows a second: two at most that are one attempt each, and of all others one for each minute and kind, of which there are sixty. */
function attemptRows(requests: number): number {
  return Math.min(requests, 2 + 60 / 60);
}

/** What requests, every tenth of them a keyed write that makes a record, leave behind; in GB. */
function storageRow(requests: number) {
  const [aDay, recordsADay] = [requests * day, requests * 0.1 * day];
  const gigabytes = (rows: number, each: number) => (rows * each) / 1e9;
  return {
    'requests a second': requests,
    'log, a day': gigabytes(aDay, bytes.log),
    'attempts (90 days)': gigabytes(90 * attemptRows(requests) * day, bytes.attempt),
    'claims (24 h)': gigabytes(recordsADay, bytes.claim),
    'events (30 days)': gigabytes(30 * recordsADay, bytes.event),
    'known records, a year': gigabytes(365 * recordsADay, bytes.known),
    'the copy, a year': gigabytes(365 * recordsADay, bytes.copied),
  };
}

type Row = Record<string, number>;

function toTable(rows: Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const format = (value = 0) =>
    value >= 99.5 || Number.isInteger(value) ? Math.round(value).toLocaleString('en') : value.toPrecision(2);
  const lines = rows.map((row) => `| ${columns.map((column) => format(row[column])).join(' | ')} |`);
  return [`| ${columns.join(' | ')} |`, `| ${columns.map(() => '---').join(' | ')} |`, ...lines].join('\n');
}

export const tables = {
  load: toTable([10, 100, 1000, 10_000, 100_000].map(loadRow)),
  storage: toTable([1, 10, 1000].map(storageRow)),
  org: toTable([10, 50, 100, 1000, 10_000].map(orgRow)),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(Object.values(tables).join('\n\n'));
