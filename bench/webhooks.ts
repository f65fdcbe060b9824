/**
 * How long the acknowledgement of a webhook takes, with everything embedded or (with DATABASE_URL and REDIS_URL) not:
 *
 *     node bench/webhooks.ts
 *
 * One sender sends webhooks of different members one after the other, as the CRM does while little happens; then eight
 * at once. Prints percentiles in milliseconds. The service is a process of its own.
 */
import { spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { httpRequest, load } from './load.ts';

const root = new URL('../', import.meta.url).pathname;
const seconds = Number(process.env['SECONDS'] ?? 5);
const dir = mkdtempSync(join(tmpdir(), 'handoff-bench-'));
writeFileSync(join(dir, 'config.json'), '{}');

const gateway = spawn(process.execPath, [join(root, 'src/main.ts'), '--config', join(dir, 'config.json')], {
  env: { ...process.env, DATA_DIR: dir, PORT: '0', METRICS_PORT: '0', RATE_LIMIT_PER_MINUTE: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const url = await readyUrl();
  const secret = readFileSync(join(dir, 'secrets/webhooks/crm'), 'utf8').trim().slice('whsec_'.length);
  const key = Buffer.from(secret, 'base64');
  const rows = [];
  for (const clients of [1, 8]) {
    const next = () => webhook(key);
    await load({ urls: [url], clients, seconds: 1, next });
    const { rate, p50, p99, failures } = await load({ urls: [url], clients, seconds, next });
    const ms = (value: number) => Number(value.toFixed(1));
    rows.push({
      clients,
      'per second': Math.round(rate),
      p50: ms(p50),
      p99: ms(p99),
      failures: JSON.stringify(failures),
    });
  }
  console.table(rows);
} finally {
  gateway.kill('SIGTERM');
  await once(gateway, 'exit');
  rmSync(dir, { recursive: true });
}

function webhook(key: Buffer) {
  const id = randomUUID();
  const time = String(Math.floor(Date.now() / 1000));
  const timestamp = new Date().toISOString();
  const body = JSON.stringify({ type: 'member.updated', timestamp, data: { external_id: randomUUID() } });
  const signature = createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': time,
    'webhook-signature': `v1,${signature}`,
  };
  return httpRequest('POST', '/v1/webhooks/crm/members', headers, body);
}

async function readyUrl(): Promise<string> {
  for await (const line of createInterface({ input: gateway.stdout })) {
    const url = /"url":"([^"]+)".*"msg":"ready"/.exec(line)?.[1];
    if (url !== undefined) {
      gateway.stdout.resume();
      return url;
    }
  }
  throw new Error('the gateway ended before it was ready');
}
