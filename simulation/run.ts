import { findUnfinished, lookAround } from './ending.ts';
import { type Circumstances, createEmptyStage, type Stage, setStage } from './stage.ts';
import type { CommonDatabase } from './stores/database.ts';
import { installWorld } from './virtual/globals.ts';
import { Random } from './virtual/random.ts';
import { heal, setTriggers } from './workload/faults.ts';
import { actionOf, type Step } from './workload/plan.ts';
import { makeEndpoint } from './workload/subscriptions.ts';
import type { StepName } from './workload/themes.ts';
import { settleTrip } from './workload/trips.ts';
import { carryOut, changes, learn, settleReservation } from './workload/writes.ts';

/** How a run ended. */
export interface Result {
  violations: readonly string[];
  history: readonly string[];
  fingerprint: string;
  /** How often each step happened: one without anything to work on doesn't count. */
  played: Readonly<Partial<Record<StepName, number>>>;
}

/** How long everything may take to come to rest, in milliseconds of virtual time. */
const restMs = 400_000;

/** Hand-offs and plans that wait for hours, for a person say, are due at once. */
const makeDue = [
  `update deliveries set next_attempt_at = now() where status = 'pending' and next_attempt_at > now()`,
  `update handoffs set due_at = now() where due_at > now() and status in ('accepted', 'cancelled', 'rejected')`,
  `update change_reader set due_at = now(), not_before = now() where due_at > now() + interval '10 seconds'`,
  `update reservations set next_attempt_at = now() where next_attempt_at > now() + interval '1 minute'`,
];

/** Plays the steps, lets everything come to rest, and has the auditor look at it. */
export async function run(
  circumstances: Circumstances,
  steps: readonly Step[],
  database: CommonDatabase,
): Promise<Result> {
  const empty = createEmptyStage(circumstances);
  const uninstall = installWorld(empty.world, empty.network);
  const violations: string[] = [];
  const played: Result['played'] = {};
  // Outside of the simulation it ends the process.
  const onRejection = (reason: unknown) => violations.push(`a rejection is not handled: ${stackOf(reason)}`);
  process.on('unhandledRejection', onRejection);
  try {
    await database.begin(empty.world);
    await empty.world.run(
      play(empty, { circumstances, steps, played }, database).then((found) => void violations.push(...found)),
    );
  } catch (error) {
    violations.push(`the simulation ended early: ${stackOf(error)}`);
  } finally {
    uninstall();
    process.off('unhandledRejection', onRejection);
  }
  const { journal } = empty;
  for (const what of violations) journal.note(`VIOLATION ${what}`);
  return {
    violations,
    history: journal.lines,
    fingerprint: journal.fingerprint,
    played,
  };
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

interface Plan {
  circumstances: Circumstances;
  steps: readonly Step[];
  played: Partial<Record<StepName, number>>;
}

async function play(
  empty: ReturnType<typeof createEmptyStage>,
  { circumstances, steps, played }: Plan,
  database: CommonDatabase,
): Promise<readonly string[]> {
  const stage = await setStage(empty, circumstances, database);
  await makeEndpoints(stage);
  await setTriggers(stage);
  await stage.client.do(async () => {
    const going: Promise<void>[] = [];
    for (const step of steps) {
      await stage.world.pause(step.afterMs);
      going.push(playStep(stage, step, played));
    }
    await stage.world.pause(1000);
    stage.journal.note('all faults end');
    await heal(stage);
    await Promise.all(going);
    if (stage.hasBudget) await liftBudget(stage);
    await comeToRest(stage);
  });
  return stage.auditor.violations;
}

async function playStep(stage: Stage, step: Step, played: Plan['played']): Promise<void> {
  const { world, journal, auditor } = stage;
  const before = world.count + journal.lines.length;
  try {
    await actionOf(step)(stage, new Random(step.seed));
  } catch (error) {
    auditor.violations.push(`step ${step.number}, ${step.name}, came to nothing: ${stackOf(error)}`);
  }
  if (world.count + journal.lines.length > before) played[step.name] = (played[step.name] ?? 0) + 1;
}

/** With the budget of a bad day the rest would take hours. */
async function liftBudget({ replicas, journal }: Stage): Promise<void> {
  journal.note('the replicas restart with a larger budget');
  for (const replica of replicas) {
    await replica.stop();
    await replica.start({ CRM_DAILY_CALL_BUDGET: '10000000' });
  }
}

async function makeEndpoints(stage: Stage): Promise<void> {
  for (const as of ['desk', 'agent'] as const)
    if (!(await makeEndpoint(stage, as, `/${as}`))) throw new Error(`no endpoint for ${as}`);
}

/** Every write gets its last word, every decision is made, and what waits for a later time is due now. */
async function comeToRest(stage: Stage): Promise<void> {
  const { auditor, world, database } = stage;
  await endBackoff(stage);
  const open = auditor.answers.writes.filter(({ isOver }) => !isOver);
  await Promise.all(
    open.map(async (write) => {
      const final = await carryOut(stage, write, { most: 60 });
      const record = changes.get(write);
      if (record !== undefined) auditor.records.settle(record, write, final);
      settleTrip(stage, write, final, false);
      const made = auditor.records.known.find((known) => known.write === write);
      if (made !== undefined) learn(made, final);
      const reserved = auditor.reservations.known.find((known) => known.write === write);
      if (reserved !== undefined) settleReservation(reserved, final);
    }),
  );
  await decideAll(stage);
  const until = world.elapsed + restMs;
  let left: string[] = [];
  do {
    await world.pause(5000);
    for (const statement of makeDue) await database.query(statement);
    left = await findUnfinished(stage);
  } while (left.length > 0 && world.elapsed < until);
  // The reader of changes has seen the last of them by then, and its events are delivered.
  await world.pause(20_000);
  auditor.check(await lookAround(stage, left));
}

/** Waits for the end of the back-off after failed token requests: five minutes at most, which is longer than clients try. */
async function endBackoff({ cache, world }: Stage): Promise<void> {
  const record = await cache.read('crm_token_backoff:dev');
  const { until } = JSON.parse(record ?? '{"until":0}') as { until: number };
  if (until > world.wall) await world.pause(until - world.wall);
}

/** Nothing waits for approval any more. */
async function decideAll(stage: Stage): Promise<void> {
  const { database, client } = stage;
  const waiting = await database.query<{ id: string }>(
    `select external_id::text as id from handoffs where status = 'awaiting_approval' order by sequence`,
  );
  for (const { id } of waiting)
    await client.send({ method: 'POST', path: `/v1/handoffs/${id}/approve`, as: 'boss' });
}
