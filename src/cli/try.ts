import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { Command } from 'commander';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { randomUUID, timeoutSignal } from '../platform/base/chance.ts';
import {
  CommandFailed,
  exitNotFound,
  type LoadSettings,
  print,
  runCommand,
} from '../platform/command-line/command.ts';
import type { Settings } from '../platform/settings/table.ts';

const timeoutMs = 30_000;

const text = Type.String();
const pairsSchema = Type.Object({ console: Type.Object({ apiKey: text, apiSecret: text }) });
const membersSchema = Type.Object({
  data: Type.Array(
    Type.Object({
      id: text,
      first_name: Type.Union([text, Type.Null()]),
      last_name: Type.Union([text, Type.Null()]),
    }),
  ),
});
const handoffSchema = Type.Object({ id: Type.Optional(text), status: text, external_id: text });
const problemSchema = Type.Object({ title: text, detail: text, request_id: text });
const factsSchema = Type.Object({ record_url: Type.Union([text, Type.Null()]) });

interface Tried {
  status: string;
  external_id: string;
  trip_id: string;
  member: string;
  /** Null where the service has no console. */
  console_url: string | null;
  trip_url: string | null;
  /** The record in the CRM; null where there is none yet. */
  record_url: string | null;
}

export function registerTryCommand(program: Command, load: LoadSettings): void {
  program
    .command('try')
    .description('hand a sample off to the running gateway')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        const settings = load();
        const tried = await handOffSample(new Service(settings));
        print(json, tried, (shown) => show(shown, settings.crm.name));
      }),
    );
}

async function handOffSample(service: Service): Promise<Tried> {
  const { data } = await service.call(membersSchema, '/v1/members?limit=1');
  const [member] = data;
  if (member === undefined)
    throw new CommandFailed('There are no members yet. Add a contact in the org first.', exitNotFound);
  const trip_id = randomUUID();
  const { id, status, external_id } = await service.call(handoffSchema, '/api/v1/handoff', {
    type: 'quote',
    trip_id,
    member_id: member.id,
    result: firstOffer,
  });
  const who = [member.first_name, member.last_name].filter(Boolean).join(' ') || member.id;
  return {
    status,
    external_id,
    trip_id,
    member: who,
    ...(await linksTo(service, { id, external_id, trip_id })),
  };
}

type Links = Pick<Tried, 'console_url' | 'trip_url' | 'record_url'>;

/** `id`: of the record in the CRM; undefined while the hand-off waits. */
async function linksTo(
  service: Service,
  { id, external_id, trip_id }: { id: string | undefined; external_id: string; trip_id: string },
): Promise<Links> {
  const facts = await service.call(factsSchema, '/console/settings').catch(() => undefined);
  if (facts === undefined) return { console_url: null, trip_url: null, record_url: null };
  const page = `${service.url}/console/#`;
  if (id === undefined) return { console_url: `${page}/waiting`, trip_url: null, record_url: null };
  return {
    console_url: `${page}/records/quotes/${external_id}`,
    trip_url: `${page}/trips/${trip_id}`,
    record_url: facts.record_url?.replace('{id}', id) ?? null,
  };
}

/** Calls throw `CommandFailed`. */
class Service {
  readonly url: string;
  readonly #headers: Record<string, string>;

  constructor(settings: Settings) {
    this.url = addressOf(settings);
    const { apiKey, apiSecret } = readPair(settings);
    this.#headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
    const { certFile } = settings.tls;
    if (certFile !== undefined)
      setDefaultCACertificates([...getCACertificates('default'), readFileSync(certFile, 'utf8')]);
  }

  async call<S extends TSchema>(schema: S, path: string, body?: object): Promise<Static<S>> {
    const answer = await fetch(`${this.url}${path}`, {
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      headers: { ...this.#headers, ...(body && { 'content-type': 'application/json' }) },
      signal: timeoutSignal(timeoutMs),
    }).catch(({ cause, message }: Error) => {
      const reason = cause instanceof Error ? cause.message || (cause as { code?: string }).code : message;
      throw new CommandFailed(
        `No gateway is running at ${this.url} (${reason}). Run npm start in another terminal.`,
        exitNotFound,
      );
    });
    const content: unknown = await answer.json().catch(() => undefined);
    if (answer.ok && Value.Check(schema, content)) return content;
    throw new CommandFailed(failureOf(content, answer.status, this.url), exitNotFound);
  }
}

function failureOf(content: unknown, status: number, url: string): string {
  if (!Value.Check(problemSchema, content))
    return `${url} answered ${status}, but it isn't Handoff Gateway. Is another program using that port?`;
  const { title, detail, request_id } = content;
  const advice =
    status === 401
      ? '\nThe gateway at this address may use another data folder. Set DATA_DIR to that folder.'
      : '';
  return `${title}: ${detail} (request ${request_id})${advice}`;
}

function addressOf({ publicUrl, host, port, tls }: Settings): string {
  if (publicUrl !== undefined) return publicUrl;
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `${tls.certFile ? 'https' : 'http'}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function readPair({ dataDir }: Settings): { apiKey: string; apiSecret: string } {
  const file = resolve(dataDir, 'credentials.json');
  try {
    return Value.Parse(pairsSchema, JSON.parse(readFileSync(file, 'utf8'))).console;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new CommandFailed(
      isMissing
        ? `${file} doesn't exist. Run npm start in another terminal to create it, or set DATA_DIR to the gateway's data folder.`
        : `${file} has no credentials for "console".`,
      exitNotFound,
    );
  }
}

function show({ status, member, console_url, trip_url, record_url }: Tried, crmName: string): string {
  const { name } = firstOffer;
  const { net, currency } = firstOffer.details.price;
  const isCreated = status === 'created';
  const links = [
    ['Record', isCreated ? console_url : null],
    ['Trip', trip_url],
    [`In ${crmName}`, record_url],
    ['Waiting', isCreated ? null : console_url],
  ].filter(([, url]) => url !== null) as [string, string][];
  const width = Math.max(0, ...links.map(([label]) => label.length)) + 2;
  return [
    isCreated
      ? `Created a quote in ${crmName} for ${member}:`
      : `Saved a quote for ${member}. ${crmName} isn't responding; we'll create it as soon as it does:`,
    `  ${name}, ${net.toFixed(2)} ${currency}`,
    '',
    ...links.map(([label, url]) => `  ${label.padEnd(width)}${url}`),
  ].join('\n');
}

export const firstOffer = {
  name: 'Hotel Miramar, Malaga: double room with sea view, 3 nights',
  source: 'hotelbeds',
  details: {
    hotel: {
      code: 1073,
      name: 'Hotel Miramar',
      category: '5EST',
      latitude: '36.719130',
      longitude: '-4.408780',
    },
    check_in: '2027-04-12',
    check_out: '2027-04-15',
    room: { code: 'DBT.SU', name: 'Double or twin, sea view', board: 'BB', adults: 2, children: 0 },
    price: { net: 612.4, currency: 'EUR', taxes_included: true },
    rate_key: '20270412|20270415|W|1|1073|DBT.SU|CG-TODOS|BB||1~2~0||N@06',
    cancellation: [{ amount: '204.13', from: '2027-04-09T23:59:00+02:00' }],
  },
};
