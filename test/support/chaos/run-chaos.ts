import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { randomFrom } from '../../../simulators/shared/random.ts';
import type { Org } from '../org.ts';
import { type OwnOrg, startOwnOrg } from '../own-org.ts';
import { checkLedger, checkOrg, checkReplays } from './checks.ts';
import { Figures } from './figures.ts';
import { type DoneWrite, liveThrough, type Outcome, planLives } from './record-life.ts';
import { type Replicas, startReplicas } from './replicas.ts';
import { StubbornClient } from './stubborn-client.ts';
import { Turnstile } from './turnstile.ts';

export interface ChaosOptions {
  databaseUrl: string;
  redisUrl: string;
  writes: number;
  kills: number;
  replicas: number;
  /** Requests in flight at once. */
  clients: number;
  seed: number;
  /**
   * Who ends the leases of killed owners: time does, after 30 s; or, so that a short run is short, this run itself,
   * while no request is under way: then every unfinished claim is a dead owner's.
   */
  leases: 'time' | 'run';
  /** Called now and then with how far the run is. */
  onProgress?: (line: string) => void;
}

/** Of 100 calls to the CRM, so many fail in each of these ways. */
const faultsOf100 = { error: 1, down: 0.5, lockRow: 0.5, reset: 1, loseAnswer: 1, hang: 1 };
/** Records that are worked on at once: many of them wait for a lease. */
const livesAtOnce = 400;

/**
 * Replicas on one PostgreSQL and one Redis, in front of an org where five calls of a hundred fail, are killed at
 * random and started again, while clients write, change, delete and read, and repeat under the same key whatever was
 * not answered. Everything that is random follows from the seed, except the order in which things happen.
 */
export async function runChaos(options: ChaosOptions): Promise<Figures> {
  const figures = new Figures();
  await using harness = await openHarness(options);
  const { ownOrg, replicas, database } = harness;
  const faults = await armFaults(ownOrg.org, options.seed);
  const rounds = new Rounds(options, harness, figures);
  const client = new StubbornClient({
    nextUrl: () => replicas.anyUrl(Math.random),
    credentials: replicas.credentials,
    turnstile: rounds.turnstile,
    figures,
  });
  const random = randomFrom(options.seed);
  const written: DoneWrite[] = [];
  const lives = allLives(planLives(options.writes, random), {
    client,
    memberId: ownOrg.org.memberId,
    random,
    figures,
    untilAllowed: () => rounds.untilAllowed(),
    onDone: (write: DoneWrite) => void written.push(write),
  });
  await rounds.run(lives);
  const outcomes = await lives;
  for (const [kind, hits] of await faults()) figures.faults.set(kind, hits);
  await ownOrg.org.disarm();
  await replicas.allUp();
  await checkOrg(ownOrg.org, outcomes, figures);
  await checkLedger(database, written.length, figures);
  await checkReplays(client, written, figures);
  return figures;
}

interface Harness {
  ownOrg: OwnOrg;
  replicas: Replicas;
  database: Client;
}

async function openHarness(options: ChaosOptions): Promise<Harness & AsyncDisposable> {
  await using opening = new AsyncDisposableStack();
  const ownOrg = await startOwnOrg();
  opening.defer(() => ownOrg.close());
  await ownOrg.org.change({ dailyLimit: 1_000_000_000 });
  const replicas = await startReplicas(options.replicas, ownOrg, {
    DATABASE_URL: options.databaseUrl,
    REDIS_URL: options.redisUrl,
    CRM_TIMEOUT_MS: '1500',
    RATE_LIMIT_PER_MINUTE: '0',
  });
  opening.defer(() => replicas.remove());
  const database = new Client({ connectionString: options.databaseUrl });
  await database.connect();
  opening.defer(() => database.end());
  const opened = opening.move();
  return { ownOrg, replicas, database, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Answers with a look at how often each has struck. */
async function armFaults(org: Org, seed: number): Promise<() => Promise<[string, number][]>> {
  const effects: Record<keyof typeof faultsOf100, object> = {
    error: { status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'An unexpected error occurred' },
    down: {},
    lockRow: {},
    reset: {},
    loseAnswer: {},
    hang: {},
  };
  for (const [index, [kind, more]] of Object.entries(effects).entries()) {
    const probability = faultsOf100[kind as keyof typeof faultsOf100] / 100;
    await org.arm({ match: {}, effect: { kind, ...more }, probability, seed: seed + index });
  }
  return async () => (await org.faults()).map(({ effect, hits }) => [effect.kind, hits]);
}

/** All lives, so many at a time, each begun in its order. */
async function allLives(
  plans: ReturnType<typeof planLives>,
  options: Parameters<typeof liveThrough>[1],
): Promise<Outcome[]> {
  const turnstile = new Turnstile(livesAtOnce);
  return Promise.all(plans.map((plan) => turnstile.pass(() => liveThrough(plan, options))));
}

/**
 * One round for each kill: a share of the writes is let go at once, and in the middle of them one replica dies. So
 * each kill meets writes at all their stages.
 */
class Rounds {
  readonly turnstile: Turnstile;
  readonly #options: ChaosOptions;
  readonly #harness: Harness;
  readonly #figures: Figures;
  readonly #waiting: (() => void)[] = [];
  #allowed = 0;

  constructor(options: ChaosOptions, harness: Harness, figures: Figures) {
    this.#options = options;
    this.#harness = harness;
    this.#figures = figures;
    this.turnstile = new Turnstile(options.clients);
  }

  /** Resolves when one more write may begin. */
  async untilAllowed(): Promise<void> {
    if (this.#allowed === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#allowed -= 1;
  }

  async run(lives: Promise<unknown>): Promise<void> {
    const { kills, writes, onProgress } = this.#options;
    const random = randomFrom(this.#options.seed + 1000);
    let isOver = false;
    void lives.finally(() => {
      isOver = true;
    });
    for (let round = 1; round <= kills; round++) {
      this.#allow(Math.ceil(writes / kills));
      await delay(random() * 150);
      await this.#harness.replicas.killOne(random);
      this.#figures.kills += 1;
      if (round % 3 === 0) await this.#endLeases();
      if (round % 10 === 0) {
        onProgress?.(`${round} kills, ${this.#figures.writes} writes, ${this.#waiting.length} wait`);
      }
    }
    this.#allow(Number.POSITIVE_INFINITY);
    while (!isOver) {
      await Promise.race([lives, delay(1000, undefined, { ref: false })]);
      if (!isOver) await this.#endLeases();
    }
  }

  #allow(writes: number): void {
    this.#allowed += writes;
    for (const go of this.#waiting.splice(0, writes)) go();
  }

  async #endLeases(): Promise<void> {
    if (this.#options.leases === 'time') return;
    await this.turnstile.whileEmpty(async () => {
      await this.#harness.database.query(
        'update idempotency_claims set lease_until = now() where completed_at is null and lease_until > now()',
      );
    });
  }
}
