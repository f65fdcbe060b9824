import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { arrivals } from './arrivals.ts';
import { budget } from './budget.ts';
import { budgetMix } from './budget-mix.ts';
import { bulk } from './bulk.ts';
import { authentication, loading } from './consumers.ts';
import { copy } from './copy.ts';
import { describeEnvironment } from './environment.ts';
import { type FigureName, figuresTable } from './figures.ts';
import { createHarness, type Harness } from './harness.ts';
import { idle } from './idle.ts';
import type { Part, PartResult } from './part.ts';
import { proxy } from './proxy.ts';
import { replicas } from './replicas.ts';
import { type Table, toMarkdown, writeIntoPage } from './report.ts';
import type { Spread } from './spread.ts';
import { startUp } from './start-up.ts';
import { testKeys } from './test-keys.ts';
import { trips } from './trips.ts';

const parts: Record<string, Part> = {
  bulk,
  arrivals,
  proxy,
  idle,
  authentication,
  loading,
  copy,
  'start-up': startUp,
  replicas,
  budget,
  'budget-mix': budgetMix,
  'test-keys': testKeys,
  trips,
};

const usage = `Usage: npm run bench -- [options]

  --only PART,PART     of ${Object.keys(parts).join(', ')} (all)
  --rounds N           rounds of each measurement; their median counts (5)
  --seconds N          of each measurement in a round (4)
  --clients N          at once against a slow CRM (512)
  --consumers N        in the large directory (100000)
  --offline            fetch nothing: @fastify/http-proxy and express-gateway are left out
  --json FILE          write the results there, too
  --markdown FILE      write the tables into this page, between its two markers
  --help               show this text`;

try {
  await run();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function run(): Promise<void> {
  const given = readArguments();
  if (given === undefined) return;
  const stores = new Set<string>();
  const results: Record<string, PartResult> = {};
  for (const name of given.names) {
    console.error(`${name} ...`);
    try {
      results[name] = await withHarness(createHarness(stores), (harness) =>
        (parts[name] as Part)({ harness, ...given }),
      );
    } catch (error) {
      // What the other parts measured is printed all the same.
      console.error(`${name} failed:`, error);
      process.exitCode = 1;
    }
  }
  const figures: Partial<Record<FigureName, Spread>> = {};
  for (const result of Object.values(results)) Object.assign(figures, result.figures);
  const tables: Table[] = [
    figuresTable(figures),
    ...Object.values(results).flatMap((result) => result.tables),
  ];
  const environment = describeEnvironment(stores, given);
  const markdown = toMarkdown(environment, tables);
  console.log(markdown);
  if (given.json) writeFileSync(given.json, `${JSON.stringify({ environment, figures, tables }, null, 2)}\n`);
  if (given.markdown) writeIntoPage(given.markdown, markdown);
}

/** Whatever happens, the harness is closed: after the part, or when the run is interrupted. */
async function withHarness<T>(harness: Harness, part: (harness: Harness) => Promise<T>): Promise<T> {
  const interrupt = () => void harness.close().finally(() => process.exit(130));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    return await part(harness);
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    await harness.close();
  }
}

/** Undefined where only help was asked for. Throws with what is wrong, and the usage. */
function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string', default: Object.keys(parts).join(',') },
        rounds: { type: 'string', default: '5' },
        seconds: { type: 'string', default: '4' },
        clients: { type: 'string', default: '512' },
        consumers: { type: 'string', default: '100000' },
        offline: { type: 'boolean', default: false },
        json: { type: 'string' },
        markdown: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      return undefined;
    }
    const names = values.only.split(',');
    const unknown = names.find((name) => !Object.hasOwn(parts, name));
    if (unknown !== undefined) throw new Error(`there is no part ${unknown}`);
    const { offline, json, markdown } = values;
    const rounds = count('rounds', values.rounds);
    const clients = count('clients', values.clients);
    const consumers = count('consumers', values.consumers);
    const seconds = Number(values.seconds);
    if (!(seconds > 0)) throw new Error('--seconds must be a number above 0');
    return { names, offline, json, markdown, rounds, clients, consumers, seconds };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`, {
      cause: error,
    });
  }
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`--${name} must be a whole number above 0`);
  return value;
}
