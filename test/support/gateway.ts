import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApp, type Started } from '../../src/app/app.ts';
import { loadSettings } from '../../src/app/settings.ts';
import type { Permission } from '../../src/identity/consumers/consumer.ts';
import { createConsumers } from '../../src/identity/consumers/consumers.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/platform/secrets/file.ts';
import { listOf, resourcesOf } from '../../src/records/mapping.ts';
import { fieldNamesOf } from '../../src/records/shown-fields.ts';
import { DiningPartner } from './dining-partner.ts';
import { eventually } from './eventually.ts';
import { type LogLine, recordLog } from './log.ts';
import { recordAnswers } from './native-ids.ts';
import { Org } from './org.ts';
import { provideDatabase } from './own-database.ts';
import { freePort } from './ports.ts';
import { useStarted } from './use-started.ts';

const fieldNames = fieldNamesOf(() => listOf(resourcesOf()));

export interface Credentials {
  id: string;
  apiKey: string;
  apiSecret: string;
}

/** A whole gateway in this process, spoken to over HTTP, with a simulated org of its own. */
export interface TestGateway {
  url: string;
  operationsUrl: string;
  /** The text of `/metrics`. */
  metrics(): Promise<string>;
  dataDir: string;
  console: Credentials;
  admin: Credentials;
  org: Org;
  /** The simulated partner that it has started itself. */
  diningPartner: DiningPartner;
  logLines: LogLine[];
  /** Sends a request; with the console's credentials unless `as` says otherwise (null: none). */
  request(path: string, options?: RequestOptions): Promise<Response>;
  /** Makes a consumer in the secrets manager, as an operator would, and waits until the gateway knows it. */
  newConsumer(...permissions: Permission[]): Promise<Credentials>;
  /** Fails if any answer held an identifier of the CRM's own where none belongs. */
  stop(): Promise<void>;
}

export interface RequestOptions {
  method?: string;
  as?: { apiKey: string; apiSecret: string } | null;
  headers?: Record<string, string>;
  /** An object is sent as JSON; a text or bytes as they are. */
  body?: object | string | Uint8Array<ArrayBuffer>;
}

/** Starts a gateway with a database of its own, and with further stores that `env` names. */
export async function startGateway(env: NodeJS.ProcessEnv = {}): Promise<TestGateway> {
  const dataDir = await mkdtemp(join(tmpdir(), 'handoff-gateway-'));
  const database = await provideDatabase(env, dataDir);
  await writeFile(join(dataDir, 'config.json'), '{}');
  const settings = loadSettings(
    // Reading changes is for the tests about it: others count calls.
    {
      DATA_DIR: dataDir,
      PORT: '0',
      METRICS_HOST: '127.0.0.1',
      CHANGES_POLL_SECONDS: '0',
      ...env,
      ...database.env,
    },
    join(dataDir, 'config.json'),
  );
  const { log, lines } = recordLog();
  const app = createApp({ ...settings, metricsPort: await freePort() }, log);
  const started: Started = await app.start();
  // A second gateway on one secretsDir makes no consumers; its tests have those of the first.
  const path = join(dataDir, 'credentials.json');
  const credentials = existsSync(path) ? JSON.parse(await readFile(path, 'utf8')) : {};
  const answers = recordAnswers();
  return {
    url: started.url,
    operationsUrl: started.operationsUrl as string,
    metrics: async () => (await fetch(`${started.operationsUrl}/metrics`)).text(),
    dataDir,
    ...credentials,
    org: new Org(started.org?.url ?? '', started.org?.memberId ?? ''),
    diningPartner: new DiningPartner(started.simulated['dining']?.url ?? ''),
    logLines: lines,
    request: async (path, options = {}) => {
      const response = await send(started.url + path, options, credentials.console);
      return answers.keep(options.method ?? '', path, response);
    },
    newConsumer: async (...permissions) => {
      const consumer = await createConsumer(settings.secretsDir, permissions);
      // A change of a file is seen a little later, and nothing shows when.
      await eventually(async () =>
        assert.notEqual(
          (await send(`${started.url}/api/v1/handoff`, { body: '{', as: consumer }, consumer)).status,
          401,
        ),
      );
      return consumer;
    },
    stop: async () => {
      await app.close();
      await database.stop();
      await rm(dataDir, { recursive: true, maxRetries: 5 });
      await answers.assertNoNativeIds();
    },
  };
}

/** A gateway for the tests of a file or a suite. */
export function useGateway(env: NodeJS.ProcessEnv | (() => NodeJS.ProcessEnv) = {}): TestGateway {
  return useStarted(
    () => startGateway(typeof env === 'function' ? env() : env),
    (gateway) => gateway.stop(),
  );
}

async function createConsumer(secretsDir: string, permissions: Permission[]): Promise<Credentials> {
  const secrets = createFileSecretsManager({ dir: secretsDir });
  const { store } = createConsumers({
    secrets,
    log: recordLog().log,
    metrics: createMetrics(),
    fieldNames,
    refreshSeconds: 30,
  });
  const { consumer, apiKey, apiSecret } = await store.create({ name: 'test', permissions });
  await secrets.close();
  return { id: consumer.id, apiKey, apiSecret };
}

async function send(url: string, options: RequestOptions, console: Credentials): Promise<Response> {
  const { as = console, body, headers } = options;
  const isRaw = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  return fetch(url, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(as && { 'x-api-key': as.apiKey, 'x-api-secret': as.apiSecret }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
  });
}
