import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../test/support/ports.ts';
import type { Gateway, GatewayOptions, Harness } from './harness.ts';
import type { Part } from './part.ts';
import { gatewayRead, gatewayWrite } from './requests.ts';
import { measure } from './rounds.ts';
import { type Spread, spreadOf } from './spread.ts';

const clients = 64;

/** Time from the start of the process to its first answer that all is well, and the memory that it takes. */
export const startUp: Part = async ({ harness, rounds, seconds }) => {
  const samples: Record<string, Sample[]> = { embedded: [], 'PostgreSQL and Redis': [] };
  const upstream = await harness.startUpstream();
  const redis = await harness.newRedis();
  for (let round = 0; round < rounds; round++) {
    samples['embedded']?.push(await sample(harness, {}, seconds));
    const options = { crm: upstream, env: { ...(await harness.newDatabase()), ...redis } };
    samples['PostgreSQL and Redis']?.push(await sample(harness, options, seconds));
  }
  const rows = Object.entries(samples).map(([stores, taken]) => {
    const spread = (pick: (one: Sample) => number): Spread => spreadOf(taken.map(pick));
    return {
      stores,
      'first start s': spread(({ firstSeconds }) => firstSeconds),
      'second start s': spread(({ secondSeconds }) => secondSeconds),
      'MiB after start': spread(({ idleMiB }) => idleMiB),
      'MiB after load': spread(({ loadedMiB }) => loadedMiB),
    };
  });
  const notes = [
    'Until the first 200 of /v1/healthz. The first start makes the database; embedded, it starts the simulated org too.',
    `Resident memory of the gateway's own process, after the second start and after ${seconds} s each of reads and keyed writes by ${clients} clients.`,
  ];
  return { tables: [{ title: 'Start-up and memory', notes, rows }], figures: {} };
};

interface Sample {
  firstSeconds: number;
  secondSeconds: number;
  idleMiB: number;
  loadedMiB: number;
}

/** One installation, started twice and loaded. */
async function sample(harness: Harness, options: GatewayOptions, seconds: number): Promise<Sample> {
  const first = await timedStart(harness, options);
  await first.gateway.program.stop();
  const { gateway, took } = await timedStart(harness, { ...options, dataDir: first.gateway.dataDir });
  const idleMiB = gateway.program.residentMiB();
  const { memberId, quoteId } = await makeQuote(gateway);
  for (const next of [gatewayRead(gateway, [quoteId]), gatewayWrite(gateway, memberId)]) {
    await measure({ urls: [gateway.url], clients, seconds, next }, {});
  }
  const loadedMiB = gateway.program.residentMiB();
  await gateway.program.stop();
  return { firstSeconds: first.took, secondSeconds: took, idleMiB, loadedMiB };
}

async function timedStart(
  harness: Harness,
  options: GatewayOptions,
): Promise<{ gateway: Gateway; took: number }> {
  const port = await freePort();
  const started = performance.now();
  const starting = harness.startGateway({ ...options, env: { ...options.env, PORT: String(port) } });
  const answered = untilHealthy(`http://127.0.0.1:${port}/v1/healthz`, starting);
  const [gateway] = await Promise.all([starting, answered]);
  return { gateway, took: ((await answered) - started) / 1000 };
}

/** When it answered 200 first. Ends with a start that fails. */
async function untilHealthy(url: string, starting: Promise<unknown>): Promise<number> {
  const ended = new AbortController();
  starting.catch((error: unknown) => ended.abort(error));
  for (;;) {
    ended.signal.throwIfAborted();
    const status = await fetch(url).then(
      async (response) => {
        await response.arrayBuffer();
        return response.status;
      },
      () => 0,
    );
    if (status === 200) return performance.now();
    await delay(10);
  }
}

async function makeQuote(gateway: Gateway): Promise<{ memberId: string; quoteId: string }> {
  const members = await fetch(`${gateway.url}/v1/members?limit=1`, { headers: gateway.headers });
  const [member] = ((await members.json()) as { data: { id: string }[] }).data;
  const memberId = member?.id ?? crypto.randomUUID();
  const made = await fetch(`${gateway.url}/v1/quotes`, {
    method: 'POST',
    headers: {
      ...gateway.headers,
      'content-type': 'application/json',
      'idempotency-key': crypto.randomUUID(),
    },
    body: JSON.stringify({
      trip_id: crypto.randomUUID(),
      member_id: memberId,
      name: 'Hotel',
      source: 'bench',
      details: {},
    }),
  });
  return { memberId, quoteId: ((await made.json()) as { id: string }).id };
}
