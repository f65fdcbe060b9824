import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { PassedKey } from '../../api/pipeline/pass-on.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';
import type { ToolWords } from './tool-words.ts';

/** For this long the same arguments are the same intent, where it has no name; in seconds. */
const repeatSeconds = 600;
/** Characters of a name at most. */
export const longestIntent = 200;

export interface Intent {
  tool: string;
  /** As its caller names it, not checked yet; undefined where the arguments say it. */
  name: unknown;
  arguments(): string;
}

/**
 * The key under which a call is done once. A call without a name is that of an intent with the same arguments, where there was
 * one. Throws `invalid_request` for a name that is none, `store_unavailable`.
 */
export async function keyOfIntent(
  { tool, name, arguments: text }: Intent,
  consumerId: string,
  intents: IntentsTable,
): Promise<PassedKey> {
  const args = asUuid(`tool\0${tool}\0arguments\0${text()}`);
  if (name === undefined) {
    const named = await intents.find(consumerId, args);
    return { key: named ?? args, repeatWindowSeconds: named === undefined ? repeatSeconds : undefined };
  }
  const key = asUuid(`tool\0${tool}\0intent\0${checkedName(name)}`);
  await intents.note(consumerId, key, args);
  return { key, repeatWindowSeconds: undefined };
}

function asUuid(text: string): string {
  const hex = hash('sha256', text, 'hex');
  return hex.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

export function problemForTool(
  given: Problem,
  { hasActor, words }: { hasActor: boolean; words: ToolWords },
): Problem {
  const problem = inWords(given, words);
  const { code, message, facts } = problem;
  switch (code) {
    case 'idempotency_key_reused':
      return new Problem(code, reused, {
        errors: [{ pointer: '#/intent', message: 'belongs to a call with other arguments' }],
      });
    case 'idempotency_in_progress':
      return new Problem(code, stillRunning, facts);
    default:
      if (hasActor && facts.errors?.some((fault) => 'header' in fault && fault.header === 'X-Actor'))
        return new Problem(code, message, {
          errors: facts.errors.map(({ message: why }) => ({ pointer: '#/actor', message: why })),
        });
      if (!facts.outcomeUnknown) return problem;
      return new Problem(code, `${message} ${outcomeUnknown}`, { ...facts, outcomeUnknown: false });
  }
}

function inWords(problem: Problem, words: ToolWords): Problem {
  const { code, message, facts } = problem;
  const errors = facts.errors?.map((fault) => ({ ...fault, message: words(fault.message) }));
  return new Problem(code, words(message), { ...facts, ...(errors && { errors }), cause: problem.cause });
}

const reused =
  'This intent was already used with other arguments, and that call stands. Use another intent for another action.';
const stillRunning =
  'The same call, or another write to its record, is still running. Call again shortly, with the same arguments.';
const outcomeUnknown =
  "It's unknown whether the write took effect. Call again with the same arguments; it is done only once.";

function checkedName(name: unknown): string {
  const isName =
    typeof name === 'string' &&
    name.length > 0 &&
    name.isWellFormed() &&
    [...name.slice(0, 4 * longestIntent)].length <= longestIntent;
  if (isName) return name;
  const message = `must be a text of 1 to ${longestIntent} characters`;
  throw new Problem('invalid_request', `The argument intent ${message}.`, {
    errors: [{ pointer: '#/intent', message }],
  });
}

const deletedAtOnce = 10_000;
const kept = { keeps: 'remembers intents' };

export class IntentsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** An intent keeps the arguments of its first call. `args`: what stands for them. Throws `store_unavailable`. */
  async note(consumerId: string, key: string, args: string): Promise<void> {
    const statement = sql`
      insert into named_intents as i (consumer_id, key, arguments, called_at)
      values (${consumerId}, ${key}, ${args}, now())
      on conflict (consumer_id, key) do update set called_at = now() where i.arguments = excluded.arguments`;
    await orUnavailable(() => statement.execute(this.#database.sql), kept);
  }

  /** The key of the last intent with these arguments that was called within `repeatSeconds`. Throws `store_unavailable`. */
  async find(consumerId: string, args: string): Promise<string | undefined> {
    const statement = sql<{ key: string }>`
      select key::text from named_intents
      where consumer_id = ${consumerId} and arguments = ${args} and called_at > now() - ${interval(repeatSeconds)}
      order by called_at desc limit 1`;
    const { rows } = await orUnavailable(() => statement.execute(this.#database.sql), kept);
    return rows[0]?.key;
  }

  /** Deletes those that were not called for this long. Returns how many. */
  deleteOlderThan(hours: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from named_intents where (consumer_id, key) in (
        select consumer_id, key from named_intents
        where called_at < now() - ${interval(hours * 3600)} limit ${limit})`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}
