import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../test/support/ports.ts';
import { type Harness, pathTo } from './harness.ts';
import type { Program } from './processes.ts';

/** Another proxy, in one process, before the same upstream. */
export interface Peer {
  url: string;
  program: Program;
  headers: Record<string, string>;
}

/** nginx as a plain proxy: one worker, connections to the upstream kept, no log. Undefined where it is not installed. */
export async function startNginx(harness: Harness, upstream: string): Promise<Peer | undefined> {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  const binary = folders.map((folder) => join(folder, 'nginx')).find((file) => existsSync(file));
  if (binary === undefined) return undefined;
  const folder = join(harness.processes.folder, 'nginx');
  mkdirSync(folder);
  const port = await freePort();
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const config = `
    daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 4096; }
    http {
      access_log off; keepalive_requests 1000000000; ${paths.join(' ')}
      upstream crm { server ${new URL(upstream).host}; keepalive 512; keepalive_requests 1000000000; }
      server {
        listen 127.0.0.1:${port};
        location / { proxy_pass http://crm; proxy_http_version 1.1; proxy_set_header Connection ""; }
      }
    }`;
  writeFileSync(join(folder, 'nginx.conf'), config);
  const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'];
  const program = await harness.processes.start(binary, { args });
  const url = `http://127.0.0.1:${port}`;
  await untilAnswers(url);
  return { url, program, headers: {} };
}

const fastifyProxy = '@fastify/http-proxy@11.6.3';

/** Fastify's own proxy, fetched as the next one is. */
export async function startFastifyProxy(harness: Harness, upstream: string): Promise<Peer | undefined> {
  const folder = await installPeer(harness, 'fastify-proxy', [fastifyProxy, 'fastify@5']);
  if (folder === undefined) return undefined;
  const file = join(folder, 'proxy.mjs');
  writeFileSync(file, readFileSync(pathTo('bench/fastify-proxy.mjs')));
  const options = { args: [file, upstream], env: { NODE_ENV: 'production' }, ready: /listening on (\S+)/ };
  const program = await harness.processes.start(process.execPath, options);
  return { url: program.found, program, headers: {} };
}

const expressGateway = 'express-gateway@1.16.11';

/**
 * express-gateway with key-auth, its store emulated in the process as it is by default. It is fetched into a temporary
 * folder and is no dependency: nobody maintains it. Undefined where no registry has it.
 */
export async function startExpressGateway(harness: Harness, upstream: string): Promise<Peer | undefined> {
  const folder = await installPeer(harness, 'express-gateway', [expressGateway]);
  if (folder === undefined) return undefined;
  const [port, adminPort] = [await freePort(), await freePort()];
  const config = expressConfig(folder, { port, adminPort, upstream });
  const main = join(folder, 'node_modules/express-gateway/lib/index.js');
  const env = {
    EG_CONFIG_DIR: config,
    EG_DISABLE_CONFIG_WATCH: 'true',
    LOG_LEVEL: 'error',
    NODE_ENV: 'production',
  };
  const program = await harness.processes.start(process.execPath, { args: [main], env });
  const url = `http://127.0.0.1:${port}`;
  const admin = `http://127.0.0.1:${adminPort}`;
  await untilAnswers(`${admin}/users`);
  await post(`${admin}/users`, { username: 'bench', firstname: 'Bench', lastname: 'Bench' });
  const credential = { consumerId: 'bench', type: 'key-auth', credential: {} };
  const { keyId, keySecret } = await post(`${admin}/credentials`, credential);
  return { url, program, headers: { 'x-api-key': `${keyId}:${keySecret}` } };
}

/** Its folder of configuration: models and store as it brings them, one pipeline. YAML takes JSON. */
function expressConfig(
  folder: string,
  { port, adminPort, upstream }: { port: number; adminPort: number; upstream: string },
): string {
  const config = join(folder, 'config');
  cpSync(join(folder, 'node_modules/express-gateway/lib/config'), config, { recursive: true });
  const keyAuth = { action: { apiKeyHeader: 'x-api-key', disableHeadersScheme: true } };
  const policies = [{ 'key-auth': [keyAuth] }, { proxy: [{ action: { serviceEndpoint: 'crm' } }] }];
  const gateway = {
    http: { port, hostname: '127.0.0.1' },
    admin: { port: adminPort, hostname: '127.0.0.1' },
    apiEndpoints: { all: { host: '*' } },
    serviceEndpoints: { crm: { url: upstream } },
    policies: ['proxy', 'key-auth'],
    pipelines: { all: { apiEndpoints: ['all'], policies } },
  };
  writeFileSync(join(config, 'gateway.config.yml'), JSON.stringify(gateway));
  return config;
}

async function post(url: string, body: object): Promise<Record<string, string>> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST ${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Record<string, string>;
}

/** Whatever the answer. */
async function untilAnswers(url: string): Promise<void> {
  const giveUpAt = performance.now() + 60_000;
  for (;;) {
    try {
      await fetch(url).then((response) => response.arrayBuffer());
      return;
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await delay(50);
    }
  }
}

/** A folder with packages that are no dependencies of the project. Undefined where no registry has them. */
async function installPeer(harness: Harness, name: string, packages: string[]): Promise<string | undefined> {
  const folder = join(harness.processes.folder, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...packages];
  try {
    await promisify(execFile)('npm', install, { cwd: folder, timeout: 300_000 });
    return folder;
  } catch (error) {
    console.error(
      `${packages.join()} could not be installed: ${error instanceof Error ? error.message : ''}`,
    );
    return undefined;
  }
}
