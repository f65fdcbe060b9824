import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { numberOf, present, runProgram } from '../shared/program.ts';
import { type SalesforceSimulatorOptions, startSalesforceSimulator } from './simulator.ts';

const USAGE = `Usage: node simulators/salesforce/main.ts --client-id ID --username NAME --public-key FILE [options]

  --client-id ID             consumer key of the app
  --username NAME            username of the integration user
  --public-key FILE          PEM public key or certificate of the app; may be given more than once
  --user-name NAME           display name of the integration user
  --audience URL             accepted "aud"; may be given more than once
  --host HOST                address to listen on (127.0.0.1)
  --port PORT                port to listen on (0: any free one)
  --org NAME                 description of the org: a name from orgs/, or a file (default)
  --package DIR              source-format package in place of that of the description
  --data FILE                keeps the records across restarts
  --seed-members N           makes sure that N members with known external ids exist
  --token-lifetime SECONDS   session timeout (7200)
  --token-format FORMAT      opaque or jwt (opaque)
  --daily-limit N            API calls a day (100000)
  --max-page-size N          rows in a page of a query (2000)
  --strict                   refuse assertions valid for more than five minutes
  --help                     show this text`;

const TEXT = { type: 'string' } as const;
const LIST = { type: 'string', multiple: true } as const;

const ARGUMENTS = {
  'client-id': TEXT,
  username: TEXT,
  'public-key': LIST,
  'user-name': TEXT,
  audience: LIST,
  host: TEXT,
  port: TEXT,
  org: TEXT,
  package: TEXT,
  data: TEXT,
  'seed-members': TEXT,
  'token-lifetime': TEXT,
  'token-format': TEXT,
  'daily-limit': TEXT,
  'max-page-size': TEXT,
  strict: { type: 'boolean' },
} as const;

type Given = ReturnType<typeof parse>;

function parse(args: string[]) {
  return parseArgs({ args, options: ARGUMENTS }).values;
}

function required(given: Given, name: 'client-id' | 'username'): string {
  const value = given[name];
  if (value === undefined) throw new Error(`--${name} is required`);
  return value;
}

function tokenFormat(given: Given): 'opaque' | 'jwt' | undefined {
  const format = given['token-format'];
  if (format === undefined || format === 'opaque' || format === 'jwt') return format;
  throw new Error('--token-format must be opaque or jwt');
}

function toOptions(given: Given): SalesforceSimulatorOptions {
  const files = given['public-key'] ?? [];
  if (files.length === 0) throw new Error('--public-key is required');
  const members = numberOf(given, 'seed-members');
  return present({
    clientId: required(given, 'client-id'),
    username: required(given, 'username'),
    publicKey: files.map((file) => readFileSync(file, 'utf8')),
    userName: given['user-name'],
    audience: given.audience,
    host: given.host,
    port: numberOf(given, 'port'),
    org: given.org,
    packageDir: given.package,
    dataFile: given.data,
    seed: members === undefined ? undefined : { members },
    tokenLifetimeSeconds: numberOf(given, 'token-lifetime'),
    tokenFormat: tokenFormat(given),
    dailyLimit: numberOf(given, 'daily-limit'),
    maxPageSize: numberOf(given, 'max-page-size'),
    strict: given.strict,
  });
}

await runProgram('Simulated Salesforce org', USAGE, (args) =>
  startSalesforceSimulator(toOptions(parse(args))),
);
