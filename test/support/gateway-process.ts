import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { DiningPartner } from './dining-partner.ts';
import { ownEnvironment } from './environment.ts';
import type { Credentials } from './gateway.ts';
import { Org } from './org.ts';
import { provideDatabase } from './own-database.ts';
import type { OwnOrg } from './own-org.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A gateway as a process of its own, to be killed and started again. */
export interface GatewayProcess {
  url: string;
  /** Where it has been given a METRICS_PORT. */
  operationsUrl: string | undefined;
  org: Org;
  /** The simulated partner that it has started itself. */
  diningPartner: DiningPartner;
  output: string[];
  pid: number | undefined;
  signal(name: NodeJS.Signals): void;
  /** Resolves to exit code and signal when the process has ended. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** The folder that several runs of one gateway share. */
export interface Installation {
  dataDir: string;
  /** `sources` is the folder of another release; `output` gets the lines of the process while it starts, too. */
  start(env?: NodeJS.ProcessEnv, sources?: string, output?: string[]): Promise<GatewayProcess>;
  credentials(): Promise<{ console: Credentials; admin: Credentials }>;
  /** Kills what still runs and deletes everything. */
  remove(): Promise<void>;
}

/** `ownOrg` stands in for the org that a gateway starts and ends with itself. */
export async function createInstallation(
  common: NodeJS.ProcessEnv = {},
  ownOrg?: OwnOrg,
): Promise<Installation> {
  const dataDir = await mkdtemp(join(tmpdir(), 'handoff-installation-'));
  const database = await provideDatabase(common, dataDir);
  await writeFile(join(dataDir, 'config.json'), '{}');
  await ownOrg?.trust(common['SECRETS_DIR'] ?? join(dataDir, 'secrets'));
  const settings = {
    ...{ DATA_DIR: dataDir, PORT: '0', METRICS_PORT: '0', CHANGES_POLL_SECONDS: '0' },
    ...ownOrg?.env,
    ...common,
    ...database.env,
  };
  const running = new Set<ChildProcess>();
  return {
    dataDir,
    async start(env = {}, sources = root, output = []) {
      const program = join(sources, 'src/main.ts');
      const child = spawn(process.execPath, [program, '--config', join(dataDir, 'config.json')], {
        env: { ...ownEnvironment(), ...settings, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      running.add(child);
      const ended = once(child, 'exit').then(([code, signal]) => {
        running.delete(child);
        return { code, signal };
      });
      const { pid } = child;
      return {
        ...(await untilReady(child, ownOrg?.org, output)),
        pid,
        signal: (name) => child.kill(name),
        ended,
      };
    },
    credentials: async () => JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8')),
    async remove() {
      for (const child of running) {
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
      await database.stop();
      await rm(dataDir, { recursive: true, maxRetries: 5 });
    },
  };
}

async function untilReady(
  child: ChildProcess,
  ownOrg: Org | undefined,
  output: string[],
): Promise<Pick<GatewayProcess, 'url' | 'operationsUrl' | 'org' | 'output' | 'diningPartner'>> {
  const ready = Promise.withResolvers<{ url: string; operations_url?: string }>();
  let orgUrl = '';
  let partnerUrl = '';
  const banner = Promise.withResolvers<Org>();
  child.stderr?.setEncoding('utf8').on('data', (text: string) => output.push(text));
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    output.push(line);
    if (line.includes('"msg":"ready"')) ready.resolve(JSON.parse(line));
    const org = /Salesforce +simulated at (\S+)/.exec(line)?.[1];
    if (org) orgUrl = org;
    const partner = /Dining +simulated at (\S+)/.exec(line)?.[1];
    if (partner) partnerUrl = partner;
    const member = /"member_id":"([^"]+)"/.exec(line)?.[1];
    if (member) banner.resolve(new Org(orgUrl, member));
  });
  child.once('exit', () => {
    const error = new Error(`the gateway ended before it was ready:\n${output.join('\n')}`);
    ready.reject(error);
    banner.reject(error);
  });
  banner.promise.catch(() => {});
  const { url, operations_url: operationsUrl } = await ready.promise;
  return {
    url,
    operationsUrl,
    org: ownOrg ?? (await banner.promise),
    output,
    get diningPartner() {
      return new DiningPartner(partnerUrl);
    },
  };
}
