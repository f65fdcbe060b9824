import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ClaimState, type Claims, openClaims } from '../support/claims.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import {
  assertInProgress,
  assertReplays,
  isReplay,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';
import { type ProxyHold, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

/** What the gateway's harness is made of; all of it outlives the gateway. */
interface Harness {
  ownOrg: OwnOrg;
  proxy: TcpProxy;
  claims: Claims;
  installation: Installation;
  close(): Promise<void>;
}

/** Stops the writes at one point. */
interface Stop {
  hit(count: number): Promise<void>;
  /** After the kill: nothing more is to be stopped. */
  clear(): Promise<void>;
  /** Lets what was under way take effect, when all repeats have been answered. */
  comeLate?(): Promise<void>;
}

interface Step {
  when: string;
  stop(harness: Harness): Promise<Stop>;
  /** What the kill leaves: nothing, a claim that its owner can't finish, or a stored answer. */
  leaves: 'nothing' | 'claim' | 'answer';
  /** The CRM had done its part. */
  committed: boolean;
}

const claiming = 'claims.take';
const completing = 'claims.complete';
const kinds = ['creation', 'handOff', 'change', 'deletion'] as const;

const steps: Step[] = [
  {
    when: 'before the claim',
    stop: async ({ proxy }) => proxyStop(proxy.holdRequests(claiming)),
    leaves: 'nothing',
    committed: false,
  },
  {
    when: 'after the claim, before any call to the CRM',
    stop: async ({ proxy }) => proxyStop(proxy.holdAnswers(claiming)),
    leaves: 'claim',
    committed: false,
  },
  {
    when: 'while the write is under way to the CRM, where it comes last of all',
    stop: async ({ ownOrg }) => lateWrites(ownOrg),
    leaves: 'claim',
    committed: false,
  },
  {
    when: 'after the CRM has committed, before its answer',
    stop: async ({ ownOrg }) => {
      const { hit, remove } = await holdWrites(ownOrg, 'after');
      return { hit, clear: remove };
    },
    leaves: 'claim',
    committed: true,
  },
  {
    when: "after the CRM's answer, before the completion",
    stop: async ({ proxy }) => proxyStop(proxy.holdRequests(completing)),
    leaves: 'claim',
    committed: true,
  },
  {
    when: 'after the completion, before the answer',
    stop: async ({ proxy }) => proxyStop(proxy.holdAnswers(completing)),
    leaves: 'answer',
    committed: true,
  },
];

/** What is held dies with the gateway: the proxy may not have heard of its end yet, and must not let it go. */
function proxyStop(hold: ProxyHold): Stop {
  return { hit: (count) => hold.hit(count), clear: async () => hold.cut() };
}

/** The CRM has taken the calls in and works on them only after all repeats have been answered. */
async function lateWrites(ownOrg: OwnOrg): Promise<Stop> {
  const { hit, remove } = await holdWrites(ownOrg, 'before');
  return {
    hit,
    clear: async () => {},
    comeLate: async () => {
      await remove();
      // The calls have been let go by then: the org works through them before it takes a further one.
      await ownOrg.org.counters();
    },
  };
}

/** Holds one call of each kind and nothing else: the gateway may describe the org's objects meanwhile. */
async function holdWrites({ org }: OwnOrg, stage: 'before' | 'after') {
  const hold = (method: string, times: number) =>
    org.arm({ match: { method, path: '/sobjects/' }, effect: { kind: 'hold', stage }, times });
  const creations = await hold('POST', 2);
  const change = await hold('PATCH', 1);
  const deletion = await hold('DELETE', 1);
  const hits = [() => creations.hit(1), () => creations.hit(2), () => change.hit(), () => deletion.hit()];
  return {
    hit: async (count: number) => hits[count - 1]?.(),
    remove: async () => {
      for (const fault of [creations, change, deletion]) await fault.remove();
    },
  };
}

function stateOf(claim: ClaimState | undefined): Step['leaves'] {
  if (claim === undefined) return 'nothing';
  return claim.completed ? 'answer' : 'claim';
}

async function openHarness(postgres: PostgresDatabase): Promise<Harness> {
  const proxy = await startTcpProxy(postgres.url);
  const ownOrg = await startOwnOrg();
  const installation = await createInstallation({ DATABASE_URL: proxy.url }, ownOrg);
  const claims = await openClaims(postgres.url);
  return {
    ownOrg,
    proxy,
    claims,
    installation,
    close: async () => {
      await installation.remove();
      await claims.close();
      await proxy.close();
      await ownOrg.close();
    },
  };
}

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('a gateway on PostgreSQL that is killed', { skip: !postgres && 'no PostgreSQL' }, () => {
  let harness: Harness;
  let gateway: GatewayProcess;
  let writes: KeyedWrites;

  before(async () => {
    harness = await openHarness(postgres as PostgresDatabase);
    gateway = await harness.installation.start();
    writes = new KeyedWrites(harness.ownOrg.org, (await harness.installation.credentials()).console);
  });
  after(() => harness.close());

  for (const step of steps) {
    describe(step.when, () => {
      let stop: Stop | undefined;
      let interrupted: Record<(typeof kinds)[number], KeyedWrite>;
      const left = new Map<KeyedWrite, { claim: ClaimState | undefined; records: object[] }>();

      before(async () => {
        interrupted = await writes.oneOfEach(gateway.url);
        const all = Object.values(interrupted);
        const untouched = await Promise.all(all.map((write) => write.records()));
        stop = await step.stop(harness);
        const cut: Promise<void>[] = [];
        for (const write of all) {
          cut.push(assert.rejects(write.send(gateway.url)));
          // One after the other: writes that come together would share statements and calls.
          await stop.hit(cut.length);
        }
        gateway.signal('SIGKILL');
        await Promise.all([gateway.ended, ...cut]);
        await stop.clear();
        for (const [index, write] of all.entries()) {
          const records = await write.records();
          assert[step.committed ? 'notDeepEqual' : 'deepEqual'](records, untouched[index]);
          left.set(write, { claim: await harness.claims.find(write.key), records });
        }
        gateway = await harness.installation.start();
      });

      for (const kind of kinds) {
        test(`${kind}: the repeat ends as the first would have, once`, async () => {
          const write = interrupted[kind];
          const { claim, records } = left.get(write) ?? { records: [] };
          assert.equal(stateOf(claim), step.leaves);
          if (step.leaves === 'claim') {
            assertInProgress(await write.send(gateway.url));
            assert.deepEqual(await write.records(), records);
            await harness.claims.endLease(write.key);
          }

          const answer = await write.send(gateway.url);
          write.assertDone(answer);
          await write.assertCarriedOut();
          assert.equal(isReplay(answer), step.leaves === 'answer');
          if (step.leaves === 'answer') assert.equal(answer.text, claim?.response_body);
          if (step.committed) assert.deepEqual(await write.records(), records);
          if (claim) assert.equal((await harness.claims.find(write.key))?.external_id, claim.external_id);
          await assertReplays(write, gateway.url, answer);
        });
      }

      test('what still comes later changes nothing', async () => {
        await stop?.comeLate?.();
        for (const write of Object.values(interrupted)) {
          await write.assertCarriedOut();
          assert.equal(isReplay(await write.send(gateway.url)), true);
        }
      });
    });
  }
});
