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
  readsOverDirect: { title: 'reads, CRM at 150 ms, over direct', unit: 'x', target: { atLeast: 25 } },
  writesOverDirect: { title: 'keyed writes, CRM at 150 ms, over direct', unit: 'x', target: { atLeast: 20 } },
  callsPerRead: { title: 'CRM calls a read, 512 clients', unit: '', target: { atMost: 0.02 } },
  callsPerWrite: { title: 'CRM calls a keyed write, 512 clients', unit: '', target: { atMost: 0.02 } },
  readsOverNginx: {
    title: 'authenticated reads over nginx as a plain proxy',
    unit: 'x',
    target: { atLeast: 0.5 },
  },
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
  authentication: {
    title: 'authentication at 100,000 consumers over 10',
    unit: 'x',
    target: { atMost: 1.1 },
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
