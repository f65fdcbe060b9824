import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Org } from '../../../support/org.ts';
import type { TcpProxy } from '../../../support/tcp-proxy.ts';
import type { Model } from './model.ts';

export interface Surroundings {
  /** Between each gateway and the database. */
  databases: readonly TcpProxy[];
  redis: TcpProxy;
  client: Client;
}

/** What goes wrong, one after the other, for as long as the model works. */
export async function disrupt(model: Model, surroundings: Surroundings): Promise<void> {
  const kinds = Object.entries(disruptions(model, surroundings));
  while (!model.isOver) {
    await sleep(100 + model.random() * 1400);
    const [name, happen] = model.pick(kinds);
    const index = Math.floor(model.random() * surroundings.databases.length);
    model.trace(`${name} ${index}!`);
    await happen(index);
    model.trace(`${name} ${index} is over!`);
    model.count(`${name}!`);
  }
}

function disruptions({ cluster, random }: Model, { databases, redis, client }: Surroundings) {
  const some = (least: number, most: number) => sleep(least + random() * (most - least));
  const signal = (index: number, name: NodeJS.Signals) => cluster.gateways[index]?.signal(name);
  /** A gateway that stands still may have the rows. */
  const change = (statement: string) =>
    client
      .query(`begin; set local lock_timeout = '500ms'; ${statement}; commit`)
      .catch(() => client.query('rollback'));
  const endLease = () => change('update change_reader set lease_until = to_timestamp(0)');
  const kinds: Record<string, (index: number) => Promise<unknown>> = {
    async kill(index) {
      signal(index, 'SIGKILL');
      await cluster.gateways[index]?.ended;
      await endLease();
      await cluster.start(index, { DATABASE_URL: databases[index]?.url });
    },
    async pause(index) {
      signal(index, 'SIGSTOP');
      await some(100, random() < 0.1 ? 10_000 : 3000);
      signal(index, 'SIGCONT');
    },
    async replace(index) {
      signal(index, 'SIGSTOP');
      await some(50, 500);
      await endLease();
      await some(500, 2000);
      signal(index, 'SIGCONT');
    },
    async cutDatabase(index) {
      await databases[index]?.cut();
      await some(100, 1500);
      await databases[index]?.restore();
    },
    async cutDatabases() {
      await Promise.all(databases.map((database) => database.cut()));
      await some(100, 3000);
      await Promise.all(databases.map((database) => database.restore()));
    },
    async hangDatabase(index) {
      const hold = databases[index]?.holdRequests('');
      await some(100, 3500);
      hold?.release();
    },
    async cutRedis() {
      await redis.cut();
      await some(100, 1500);
      await redis.restore();
    },
    async failReads() {
      const error = { kind: 'error', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'out of order' };
      const fault = await cluster.org.arm({ match: { operation: 'query' }, effect: error });
      await some(100, 2500);
      await fault.remove();
    },
    rebuild: () => change('truncate copied_records; delete from copy_state'),
    endLease,
  };
  return kinds;
}

/** Calls to the CRM that take their time, or whose answers are lost. */
export async function armDelays(org: Org, seed: number): Promise<void> {
  const effects: [object, number, object?][] = [
    [{ kind: 'latency', ms: 20 }, 0.3],
    [{ kind: 'lateAnswer', ms: 700 }, 0.05, { operation: 'query' }],
    [{ kind: 'lateAnswer', ms: 300 }, 0.1],
    [{ kind: 'lateAnswer', ms: 2500 }, 0.01],
    [{ kind: 'loseAnswer' }, 0.02],
  ];
  for (const [effect, probability, match = {}] of effects)
    await org.arm({ match, effect, probability, seed });
}
