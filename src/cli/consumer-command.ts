import type { Command } from 'commander';
import { Problem } from '../base/problem.ts';
import { BrokenConsumer } from '../consumers/consumer.ts';
import type { Consumers } from '../consumers/create-consumers.ts';
import { isConsumerId } from '../consumers/credentials.ts';

/** What the commands work on; opened only when a command runs, and closed whatever comes of it. */
export interface ConsumerContext {
  consumers: Pick<Consumers, 'store' | 'administration'>;
  close(): Promise<void>;
}

export type OpenContext = () => Promise<ConsumerContext>;

/** Exit codes: what was asked for is not there, or the question itself is wrong. */
export const notFound = 1;
export const badInput = 2;

export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Checks the input before anything is opened, and closes what was opened before the process may end. */
export async function run<T>(
  command: Command,
  openContext: OpenContext,
  checkInput: () => T,
  work: (consumers: ConsumerContext['consumers'], input: T) => Promise<void>,
): Promise<void> {
  try {
    const input = checkInput();
    const context = await openContext();
    try {
      await work(context.consumers, input);
    } finally {
      await context.close();
    }
  } catch (error) {
    const exitCode = exitCodeOf(error);
    if (exitCode === undefined) throw error;
    command.error(`error: ${messageOf(error as Error)}`, { exitCode });
  }
}

/** Callers of the API are not told what happened inside; whoever runs the command needs to know. */
function messageOf({ message, cause }: Error): string {
  return cause instanceof Error ? `${message} ${cause.message}` : message;
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof CommandFailed) return error.exitCode;
  if (error instanceof Problem) return error.code === 'invalid_request' ? badInput : notFound;
  return error instanceof BrokenConsumer ? notFound : undefined;
}

/** Throws `CommandFailed` for what is no id: its name would be no secret's either. */
export function checkId(id: string): void {
  if (isConsumerId(id)) return;
  const rule = '"con_" and 16 letters or digits';
  throw new CommandFailed(`${JSON.stringify(id)} is not the id of a consumer, which is ${rule}.`, badInput);
}

/** Prints a result for machines or for people. */
export function print<T>(asJson: true | undefined, value: T, show: (value: T) => string): void {
  process.stdout.write(`${asJson ? JSON.stringify(value) : show(value)}\n`);
}
