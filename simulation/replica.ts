import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type App, createApp } from '../src/app/app.ts';
import { createAllMetrics } from '../src/app/metrics.ts';
import { loadSettings } from '../src/app/settings.ts';
import type { Log } from '../src/platform/observability/log.ts';
import type { Journal } from './journal.ts';
import type { CommonCache } from './stores/cache.ts';
import type { CommonDatabase } from './stores/database.ts';
import type { CommonJobs } from './stores/jobs.ts';
import { goodReach, Way } from './stores/reach.ts';
import type { SharedSecrets } from './stores/secrets.ts';
import { Actor, type World } from './virtual/world.ts';

/** No settings: they come by variables. */
const configFile = join(mkdtempSync(join(tmpdir(), 'handoff-simulation-')), 'config.json');
writeFileSync(configFile, '{}');
process.once('exit', () => rmSync(dirname(configFile), { recursive: true }));

/** From a start that fails to the next one. */
const restartMs = 2000;

export interface Surroundings {
  world: World;
  journal: Journal;
  database: CommonDatabase;
  cache: CommonCache;
  secrets: SharedSecrets;
  jobs: CommonJobs;
  /** Environment variables of the settings. */
  env: Record<string, string>;
  /** When a restart changed whether a copy of the org's records is kept, in milliseconds of virtual time. */
  copiesChangedAt: number;
}

/** A place where one process of the service after another runs. */
export class Replica {
  readonly port: number;
  readonly #around: Surroundings;
  readonly #number: number;
  #starts = 0;
  #app: App | undefined;
  actor: Actor;
  /** Whether it keeps a copy of the org's records. */
  hasCopy = false;
  ways: Record<'database' | 'cache' | 'secrets', Way>;

  constructor(number: number, around: Surroundings) {
    this.#number = number;
    this.#around = around;
    this.port = 9000 + number;
    this.actor = new Actor(`replica ${number}`, around.world);
    this.ways = this.#createWays();
  }

  /** When one of them last changed whether it keeps a copy; undefined while only some do. */
  static copiesAgreeSince(replicas: readonly Replica[]): number | undefined {
    const [one, ...others] = replicas;
    return one === undefined || others.some(({ hasCopy }) => hasCopy !== one.hasCopy)
      ? undefined
      : one.#around.copiesChangedAt;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  #createWays(): Replica['ways'] {
    const way = () => new Way(this.#around.world, this.actor);
    return { database: way(), cache: way(), secrets: way() };
  }

  /**
   * Starts a process, with other settings than the last one where `env` has some; resolves when it answers, or is killed before.
   * One that fails to start is started again, as an orchestrator does.
   */
  async start(env: Record<string, string> = {}): Promise<void> {
    for (;;) {
      try {
        return await this.#startOnce(env);
      } catch (error) {
        const { world, journal } = this.#around;
        journal.note(`${this.actor.name} fails to start: ${(error as Error).message}`);
        this.kill();
        await world.pause(restartMs);
      }
    }
  }

  async #startOnce(env: Record<string, string>): Promise<void> {
    const { world, database, cache, secrets, jobs, journal } = this.#around;
    this.#starts += 1;
    this.actor = new Actor(`replica ${this.#number}.${this.#starts}`, world);
    this.ways = this.#createWays();
    const { actor, ways } = this;
    const settings = loadSettings({ ...this.#around.env, ...env, PORT: String(this.port) }, configFile);
    const hasCopy = { ...this.#around.env, ...env }['COPY_ENABLED'] === 'true';
    if (this.#starts > 1 && hasCopy !== this.hasCopy) this.#around.copiesChangedAt = world.elapsed;
    this.hasCopy = hasCopy;
    const stores = {
      database: database.seenFrom(ways.database),
      cache: cache.seenFrom(ways.cache),
      secrets: secrets.seenFrom(ways.secrets),
      createJobQueue: jobs.createFor(),
    };
    const killed = new Promise<void>((resolve) => actor.onKilled.add(resolve));
    const started = world.as(actor, async () => {
      this.#app = createApp(settings, logOf(journal, actor), { workerMetrics: createAllMetrics(), stores });
      await this.#app.start();
      journal.note(`${actor.name} answers`);
    });
    await Promise.race([started, killed]);
  }

  /** As SIGTERM does. */
  async stop(): Promise<void> {
    await this.#around.world.as(this.actor, () => this.#app?.close());
    this.#around.world.kill(this.actor);
  }

  /** As SIGKILL does, in whatever it is about. */
  kill(): void {
    this.#around.world.kill(this.actor);
  }

  heal(): void {
    for (const way of Object.values(this.ways)) way.reach = goodReach;
    this.#around.world.wake(this.actor);
  }
}

/** Warnings and errors, by what they say: ids in them depend on nothing but the seed. */
function logOf(journal: Journal, { name }: Actor): Log {
  const write = (level: string) => (facts: object, message: string) => {
    const { err } = facts as { err?: unknown };
    const cause = err instanceof Error ? `: ${err.message}` : '';
    journal.note(`${name} ${level} ${message}${cause}`);
  };
  const silent = () => {};
  return { debug: silent, info: silent, warn: write('warns'), error: write('fails') };
}
