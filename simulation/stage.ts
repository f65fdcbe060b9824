import { generateKeyPairSync } from 'node:crypto';
import { startDiningSimulator } from '../simulators/dining/simulator.ts';
import { startSalesforceSimulator } from '../simulators/salesforce/simulator.ts';
import { createAllMetrics } from '../src/app/metrics.ts';
import type { Permission } from '../src/identity/consumers/consumer.ts';
import { createConsumers } from '../src/identity/consumers/consumers.ts';
import { listOf, resourcesOf } from '../src/records/mapping.ts';
import { fieldNamesOf } from '../src/records/shown-fields.ts';
import { Auditor } from './auditor/auditor.ts';
import { Client, Control, type Credentials } from './clients.ts';
import { Journal } from './journal.ts';
import { type Receiver, startReceiver } from './receiver.ts';
import { Replica } from './replica.ts';
import { CommonCache } from './stores/cache.ts';
import type { CommonDatabase } from './stores/database.ts';
import { CommonJobs } from './stores/jobs.ts';
import { Way } from './stores/reach.ts';
import { SharedSecrets } from './stores/secrets.ts';
import { type Fate, Network } from './virtual/network.ts';
import type { Random } from './virtual/random.ts';
import { Actor, World } from './virtual/world.ts';
import { type Theme, themeOf } from './workload/themes.ts';

const keys = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

const all = ['read', 'write', 'delete'] as const;
const on = (resource: Permission['resource'], more: Partial<Permission> = {}): Permission => ({
  resource,
  actions: [...all],
  ...more,
});

/**
 * Who calls. `boss` sees and decides everything, `agent` has its own records alone, `intern` may need approval, `tester` has a world
 * of its own.
 */
export const consumers = {
  boss: [on('members'), on('quotes'), on('bookings'), on('consumers'), on('webhooks')],
  desk: [on('quotes'), on('bookings'), on('webhooks')],
  agent: [on('quotes', { records: 'own' }), on('bookings', { records: 'own' }), on('webhooks')],
  intern: [on('quotes'), on('bookings')],
  tester: [on('quotes'), on('bookings')],
} satisfies Record<string, Permission[]>;

export type ConsumerName = keyof typeof consumers;

/** Choices of a run beside its seed. */
export interface Circumstances {
  seed: number;
  replicas: number;
}

/** Everything that is on the stage of one run. */
export interface Stage {
  world: World;
  network: Network;
  journal: Journal;
  auditor: Auditor;
  replicas: Replica[];
  database: CommonDatabase;
  cache: CommonCache;
  org: Control;
  /** False while a lost call may still make this record: nobody in the org touches it before. */
  hasArrived: (id: string | undefined) => boolean;
  partner: Control;
  receiver: Receiver;
  client: Client;
  credentials: Record<ConsumerName, Credentials>;
  members: readonly string[];
  /** The weather between two processes, by their names: delays, refusals, silence. */
  weather: Map<string, Partial<Fate>>;
  hasBudget: boolean;
  /** Who has lost rights for now. */
  limited: Set<ConsumerName>;
  /** Who is getting another pair. */
  rotating: Set<ConsumerName>;
  /** Signs what the org reports. */
  webhookSecret: Buffer;
  /** Pairs that are over. */
  retired: { as: string; pair: Credentials }[];
  /** Kills so far. */
  kills: number;
  theme: Theme;
}

/** World and network, to be installed before anything starts. */
export function createEmptyStage({ seed }: Circumstances) {
  const world = new World(seed);
  const weather = new Map<string, Partial<Fate>>();
  const network = new Network(world, (from, to) => ({
    delayMs: world.random.between(0.3, 3),
    ...weather.get(`${kindOf(from)} to ${kindOf(to)}`),
  }));
  return { world, network, weather, journal: new Journal(world) };
}

function kindOf(actor: Actor | undefined): string {
  return actor?.name.replace(/\.\d+$/, '') ?? 'nobody';
}

/** Starts the org, the partner, the receiver and the replicas. */
export async function setStage(
  empty: ReturnType<typeof createEmptyStage>,
  { seed, replicas: count }: Circumstances,
  database: CommonDatabase,
): Promise<Stage> {
  const { world, journal } = empty;
  const secrets = new SharedSecrets();
  secrets.write('crm/dev/private-key', keys.privateKey, null);
  secrets.write('dining/dev/password', 'a password', null);
  const webhookSecret = world.random.bytes(32);
  secrets.write('webhooks/crm', `whsec_${webhookSecret.toString('base64')}\n`, null);
  const { org, partner, receiver } = await startOthers(world);
  const credentials = await createCredentials(world, secrets);
  const theme = themeOf(seed);
  const hasBudget = world.random.chance(0.3) || theme === 'sharedCalls';
  const around = {
    world,
    journal,
    database,
    secrets,
    cache: new CommonCache(world),
    jobs: new CommonJobs(world),
    env: {
      ...environment(world.random, hasBudget, theme),
      CRM_LOGIN_URL: org.url,
      DINING_BASE_URL: partner.url,
    },
    copiesChangedAt: Number.NEGATIVE_INFINITY,
  };
  const replicas = Array.from({ length: count }, (_, at) => new Replica(at + 1, around));
  for (const replica of replicas) await replica.start();
  const client = new Client(world, replicas, credentials, new Actor('clients', world));
  const auditor = new Auditor({
    everything: 'boss',
    owners: new Map([['agent', credentials.agent.id]]),
    kills: () => stage.kills,
    now: () => world.elapsed,
  });
  const operator = new Actor('operator', world);
  const stage: Stage = {
    ...empty,
    ...{ auditor, replicas, database, cache: around.cache },
    org: new Control(world, org.url, operator),
    hasArrived: (id) => id !== undefined && !org.isDelaying(id),
    partner: new Control(world, partner.url, operator),
    receiver,
    client,
    credentials,
    members: org.memberIds(20),
    hasBudget,
    limited: new Set(),
    rotating: new Set(),
    webhookSecret,
    retired: [],
    kills: 0,
    theme,
  };
  journal.note(`seed ${seed}, ${stage.theme}: ${count} replicas${hasBudget ? ', with a budget' : ''}`);
  return stage;
}

async function startOthers(world: World) {
  const [orgSide, partnerSide, receiverSide] = ['org', 'partner', 'receiver'].map(
    (name) => new Actor(name, world),
  );
  const org = await world.as(orgSide, () =>
    startSalesforceSimulator({
      clientId: 'simulation',
      username: 'gateway@example.com',
      publicKey: keys.publicKey,
      seed: { members: 20 },
    }),
  );
  const partner = await world.as(partnerSide, () =>
    startDiningSimulator({ username: 'gateway', password: 'a password' }),
  );
  const receiver = await world.as(receiverSide, () => startReceiver(world));
  return { org, partner, receiver };
}

/** Settings that differ from run to run. */
function environment(random: Random, hasBudget: boolean, theme: Theme): Record<string, string> {
  return {
    SECRETS_MANAGER: 'vault',
    VAULT_ADDR: 'http://127.0.0.1:1',
    VAULT_TOKEN: 'unused',
    SECRETS_REFRESH_SECONDS: '30',
    PUBLIC_URL: 'https://gateway.example.com',
    CRM_CLIENT_ID: 'simulation',
    CRM_USERNAME: 'gateway@example.com',
    CRM_TIMEOUT_MS: random.pick(['2000', '5000', '10000']),
    DINING_USERNAME: 'gateway',
    CHANGES_POLL_SECONDS: '5',
    CHANGES_MINIMUM_SECONDS: '2',
    COPY_ENABLED: random.pick(['true', 'false']),
    HANDOFF_WHEN_CRM_IS_UNAVAILABLE: random.pick(['refuse', 'accept']),
    MEMBER_CACHE_SECONDS: '300',
    ...(hasBudget && {
      CRM_DAILY_CALL_BUDGET: random.pick(['10000', '40000']),
      CRM_MAX_WAIT_MS: random.pick(['500', '2000', '10000']),
    }),
    ...(theme === 'sharedCalls' && { CRM_DAILY_CALL_BUDGET: '10000', CRM_MAX_WAIT_MS: '10000' }),
  };
}

async function createCredentials(world: World, secrets: SharedSecrets): Promise<Stage['credentials']> {
  const operator = new Actor('command line', world);
  return world.as(operator, async () => {
    const silent = () => {};
    const { store } = createConsumers({
      secrets: secrets.seenFrom(new Way(world, operator)),
      log: { debug: silent, info: silent, warn: silent, error: silent },
      metrics: createAllMetrics(),
      refreshSeconds: 30,
      fieldNames: fieldNamesOf(() => listOf(resourcesOf())),
    });
    const made: [string, Credentials][] = [];
    for (const [name, permissions] of Object.entries(consumers)) {
      const { consumer, apiKey, apiSecret } = await store.create({
        name,
        permissions,
        mode: name === 'tester' ? 'test' : 'live',
      });
      made.push([name, { id: consumer.id, apiKey, apiSecret }]);
    }
    return Object.fromEntries(made) as Stage['credentials'];
  });
}
