import type { Table } from './report.ts';
import type { Spread } from './spread.ts';

interface Figure {
  title: string;
  unit: string;
  /** The least or the most that it may be. */
  target: { atLeast: number } | { atMost: number };
}

/** The figures to reach; each part of the benchmark gives some of them. Their medians count. */
export const figures = {
  readsOverDirect: {
    title: 'reads, 512 clients, CRM at 150 ms, over direct',
    unit: 'x',
    target: { atLeast: 21 },
  },
  writesOverDirect: {
    title: 'keyed writes, 512 clients, CRM at 150 ms, over direct',
    unit: 'x',
    target: { atLeast: 18 },
  },
  readsP50: { title: '2,000 reads a second: p50', unit: 'ms', target: { atMost: 187 } },
  readsP99: { title: '2,000 reads a second: p99', unit: 'ms', target: { atMost: 207 } },
  callsPerRead: { title: '2,000 reads a second: CRM calls each', unit: '', target: { atMost: 0.0275 } },
  writesP50: { title: '1,000 keyed writes a second: p50', unit: 'ms', target: { atMost: 197 } },
  writesP99: { title: '1,000 keyed writes a second: p99', unit: 'ms', target: { atMost: 240 } },
  callsPerWrite: {
    title: '1,000 keyed writes a second: CRM calls each',
    unit: '',
    target: { atMost: 0.054 },
  },
  fewReadsP50: { title: '50 reads a second: p50', unit: 'ms', target: { atMost: 189 } },
  callsPerFewReads: { title: '50 reads a second: CRM calls each', unit: '', target: { atMost: 0.53 } },
  readsOverFastify: {
    title: 'authenticated reads over @fastify/http-proxy without authentication',
    unit: 'x',
    target: { atLeast: 1 },
  },
  readsOverExpress: {
    title: 'authenticated reads over express-gateway with key-auth',
    unit: 'x',
    target: { atLeast: 3 },
  },
  idleRead: { title: 'idle: added to a read', unit: 'ms', target: { atMost: 1 } },
  idleWrite: { title: 'idle: added to a keyed write', unit: 'ms', target: { atMost: 3 } },
  copyReads: { title: 'reads a second from the copy, one process', unit: '', target: { atLeast: 6000 } },
  copyIdle: { title: 'idle: a read from the copy', unit: 'ms', target: { atMost: 1.5 } },
  budgetCalls: {
    title:
      'budget of 100,000 calls, copy, 4 replicas, 500 reads and 50 keyed writes a second: CRM calls a second',
    unit: '',
    target: { atMost: 1.2 },
  },
  budgetReadsP99: { title: 'the same: p99 of reads', unit: 'ms', target: { atMost: 15 } },
  budgetWritesP99: { title: 'the same: p99 of keyed writes', unit: 'ms', target: { atMost: 2500 } },
  budgetReplicas: {
    title: 'without copy through 1, 2 and 4 replicas: most calls over fewest',
    unit: 'x',
    target: { atMost: 1.1 },
  },
  mixedRequests: {
    title: 'the same budget, reads of three resources, creates and changes of two: requests a call',
    unit: '',
    // Three times what it was while each kind had calls of its own.
    target: { atLeast: 80 },
  },
  authentication: {
    title: "check of credentials, 100,000 consumers: share of a read's CPU time",
    unit: '%',
    target: { atMost: 8 },
  },
  testReadsOverCopy: {
    title: "CPU time of a test consumer's read over one from the copy",
    unit: 'x',
    target: { atMost: 1.05 },
  },
  readsBesideWorlds: {
    title: 'live reads from the copy beside 1,000 worlds of 1,000 records, over without',
    unit: 'x',
    target: { atLeast: 0.95 },
  },
  writesBesideWorlds: {
    title: 'live keyed writes beside the same, over without',
    unit: 'x',
    target: { atLeast: 0.95 },
  },
} as const satisfies Record<string, Figure>;

export type FigureName = keyof typeof figures;

/** Each figure beside what was measured. */
export function figuresTable(measured: Partial<Record<FigureName, Spread>>): Table {
  const rows = Object.entries<Figure>(figures).map(([name, { title, unit, target }]) => {
    const found = measured[name as FigureName];
    const bound = 'atLeast' in target ? `>= ${target.atLeast}` : `<= ${target.atMost}`;
    return {
      figure: title,
      target: `${bound} ${unit}`.trim(),
      measured: found,
      met: found === undefined ? 'not measured' : isMet(target, found.median) ? 'met' : 'not met',
    };
  });
  return { title: 'Figures to reach', notes: [], rows };
}

function isMet(target: Figure['target'], median: number): boolean {
  return 'atLeast' in target ? median >= target.atLeast : median <= target.atMost;
}
