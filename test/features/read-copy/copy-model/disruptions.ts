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
    const place = Math.floor(model.random() * surroundings.databases.length);
    model.trace(`${name} ${place}!`);
    await happen(place);
    model.trace(`${name} ${place} is over!`);
    model.count(`${name}!`);
  }
}

function disruptions({ cluster, random }: Model, { databases, redis, client }: Surroundings) {
  const some = (least: number, most: number) => sleep(least + random() * (most - least));
  const signal = (place: number, name: NodeJS.Signals) => cluster.gateways[place]?.signal(name);
  /** A gateway that stands still may have the rows. */
  const change = (statement: string) =>
    client
      .query(`begin; set local lock_timeout = '500ms'; ${statement}; commit`)
      .catch(() => client.query('rollback'));
  const endLease = () => change('update change_reader set lease_until = to_timestamp(0)');
  const kinds: Record<string, (place: number) => Promise<unknown>> = {
    async kill(place) {
      signal(place, 'SIGKILL');
      await cluster.gateways[place]?.ended;
      await endLease();
      await cluster.start(place, { DATABASE_URL: databases[place]?.url });
    },
    async pause(place) {
      signal(place, 'SIGSTOP');
      await some(100, random() < 0.1 ? 10_000 : 3000);
      signal(place, 'SIGCONT');
    },
    async replace(place) {
      signal(place, 'SIGSTOP');
      await some(50, 500);
      await endLease();
      await some(500, 2000);
      signal(place, 'SIGCONT');
    },
    async cutDatabase(place) {
      await databases[place]?.cut();
      await some(100, 1500);
      await databases[place]?.restore();
    },
    async cutDatabases() {
      await Promise.all(databases.map((database) => database.cut()));
      await some(100, 3000);
      await Promise.all(databases.map((database) => database.restore()));
    },
    async hangDatabase(place) {
      const hold = databases[place]?.holdRequests('');
      await some(100, 3500);
      hold?.release();
    },
    async cutRedis() {
      await redis.cut();
      await some(100, 1500);
      await redis.restore();
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
