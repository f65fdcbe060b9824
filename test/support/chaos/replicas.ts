import { join } from 'node:path';
import type { Credentials } from '../gateway.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../gateway-process.ts';
import type { OwnOrg } from '../own-org.ts';
import { freePort } from '../ports.ts';

/**
 * Several gateways on one PostgreSQL, one Redis, one org and one folder of secrets; each of them mortal. Each has a port
 * of its own for good: who asks a dead one meets nobody.
 */
export interface Replicas {
  credentials: Credentials;
  /** URL of any replica, living or dead. */
  anyUrl(random: () => number): string;
  /** Kills one that lives, as a crash would, once there are two of them, and starts it again beside everything. */
  killOne(random: () => number): Promise<void>;
  /** Resolves when all of them answer. */
  allUp(): Promise<void>;
  remove(): Promise<void>;
}

interface Replica {
  installation: Installation;
  url: string;
  /** Undefined between its death and the end of its next start. */
  process: GatewayProcess | undefined;
  starting: Promise<void>;
}

export async function startReplicas(
  count: number,
  ownOrg: OwnOrg,
  env: NodeJS.ProcessEnv,
): Promise<Replicas> {
  // It makes the first consumers; the others share its secrets.
  const install = async (more: NodeJS.ProcessEnv = {}) =>
    createInstallation({ ...env, ...more, PORT: String(await freePort()) }, ownOrg);
  const first = await install();
  const secrets = { SECRETS_DIR: join(first.dataDir, 'secrets') };
  const replicas: Replica[] = [];
  const start = async (replica: Replica): Promise<void> => {
    replica.process = await replica.installation.start();
    replica.url = replica.process.url;
  };
  const add = async (installation: Installation): Promise<void> => {
    const replica: Replica = { installation, url: '', process: undefined, starting: Promise.resolve() };
    replicas.push(replica);
    await start(replica);
  };
  await add(first);
  const others = Array.from({ length: count - 1 }, async () => add(await install(secrets)));
  await Promise.all(others);
  const { console: credentials } = await first.credentials();
  const living = () => replicas.filter(({ process }) => process !== undefined);
  const pick = (from: Replica[], random: () => number) => from[Math.floor(random() * from.length)] as Replica;
  return {
    credentials,
    anyUrl: (random) => pick(replicas, random).url,
    async killOne(random) {
      while (living().length < 2) {
        await Promise.race(replicas.filter(({ process }) => !process).map(({ starting }) => starting));
      }
      const victim = pick(living(), random);
      const { process } = victim;
      victim.process = undefined;
      process?.signal('SIGKILL');
      await process?.ended;
      victim.starting = start(victim);
      // A start that fails shows at the next `allUp` or kill.
      victim.starting.catch(() => {});
    },
    allUp: async () => void (await Promise.all(replicas.map(({ starting }) => starting))),
    async remove() {
      await Promise.allSettled(replicas.map(({ starting }) => starting));
      // The first has the secrets that the others look at.
      for (const { installation } of replicas.toReversed()) await installation.remove();
    },
  };
}
