import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { startDiningSimulator } from './simulator.ts';

const USAGE = `Usage: node simulators/dining/main.ts --username NAME --password-file FILE [options]

  --username NAME       user name of Basic authentication
  --password-file FILE  its password: the first line of this file
  --host HOST           address to listen on (127.0.0.1)
  --port PORT           port to listen on (0: any free one)
  --data FILE           keeps the bookings across restarts
  --help                show this text`;

const TEXT = { type: 'string' } as const;

const ARGUMENTS = {
  username: TEXT,
  'password-file': TEXT,
  host: TEXT,
  port: TEXT,
  data: TEXT,
  help: { type: 'boolean' },
} as const;

function portOf(text: string): number {
  const port = Number(text);
  if (text === '' || !Number.isInteger(port) || port < 0)
    throw new Error('--port must be a number of at least 0');
  return port;
}

async function run(): Promise<void> {
  const given = parseArgs({ args: process.argv.slice(2), options: ARGUMENTS, strict: true }).values;
  if (given.help) {
    console.log(USAGE);
    return;
  }
  const file = given['password-file'];
  if (given.username === undefined || file === undefined) {
    throw new Error('--username and --password-file are required');
  }
  const simulator = await startDiningSimulator({
    username: given.username,
    password: readFileSync(file, 'utf8').split('\n', 1)[0] ?? '',
    ...(given.host === undefined ? {} : { host: given.host }),
    ...(given.port === undefined ? {} : { port: portOf(given.port) }),
    ...(given.data === undefined ? {} : { dataFile: given.data }),
  });
  console.log(`Simulated dining partner listening on ${simulator.url}`);
  const stop = (): void => {
    void simulator.close();
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

run().catch((error: unknown) => {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
});
