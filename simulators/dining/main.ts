import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { numberOf, present, runProgram } from '../shared/program.ts';
import { type DiningSimulator, startDiningSimulator } from './simulator.ts';

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
} as const;

async function start(args: string[]): Promise<DiningSimulator> {
  const given = parseArgs({ args, options: ARGUMENTS }).values;
  const file = given['password-file'];
  if (given.username === undefined || file === undefined) {
    throw new Error('--username and --password-file are required');
  }
  const options = {
    username: given.username,
    password: readFileSync(file, 'utf8').split('\n', 1)[0] ?? '',
    host: given.host,
    port: numberOf(given, 'port'),
    dataFile: given.data,
  };
  return startDiningSimulator(present(options));
}

await runProgram('Simulated dining partner', USAGE, start);
