import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { SimulatedOrg } from '../crm/simulated-org.ts';
import { features } from '../features.ts';
import type { Settings } from '../platform/settings/table.ts';
import { describeAddress, type Simulated } from '../platform/simulators/simulator.ts';

/** A hotel offer as a supplier's search gives it, to try the first hand-off with. */
const offer = {
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

const trip = '6f9619ff-8b86-4d01-b42d-00cf4fc964ff';

interface Running {
  settings: Settings;
  url: string;
  operationsUrl: string | undefined;
  org: SimulatedOrg | undefined;
  simulated: Readonly<Record<string, Simulated>>;
}

/** The text for the terminal: what is embedded, what is real, and a command that hands off an offer. */
export function banner({ settings, url, operationsUrl, org, simulated }: Running): string {
  const { dataDir } = settings;
  const credentials = join(dataDir, 'credentials.json');
  // Made at the first start only, when there is no consumer yet.
  const hasCredentials = existsSync(credentials);
  const rows = [
    ...features.flatMap(({ banner: rowsOf }) => rowsOf?.({ settings, url, hasCredentials, simulated }) ?? []),
    ['API', url, `documentation at ${url}/v1/docs`],
    ['Metrics', operationsUrl ?? 'off', ''],
    ['CRM', ...describeAddress(org, settings.crm.loginUrl, 'set crm.* for a real Salesforce org')],
    ['Database', settings.databaseUrl ? 'PostgreSQL' : `embedded in ${dataDir}/database`, ''],
    ['Cache', settings.redisUrl ? 'Redis' : 'in this process', ''],
    [
      'Secrets',
      settings.secretsManager === 'file' ? `files in ${settings.secretsDir}` : settings.secretsManager,
      '',
    ],
    ['Credentials', hasCredentials ? credentials : 'npm run handoff -- consumer create', ''],
  ];
  const table = rows.map(
    ([name = '', what = '', note = '']) => `  ${name.padEnd(12)} ${what}${note && ` (${note})`}`,
  );
  return [
    '',
    `Handoff Gateway is running (environment: ${settings.environment}).`,
    ...table,
    '',
    ...(hasCredentials && org ? invitation(curl(url, resolve(credentials), org.memberId, settings)) : []),
  ].join('\n');
}

function invitation(command: string): string[] {
  return ['Hand an offer off (paste this into another terminal):', '', command, ''];
}

/** One line for any POSIX shell; it reads the credentials from their file, so that no secret is printed. */
function curl(url: string, credentials: string, memberId: string, { tls }: Settings): string {
  const body = JSON.stringify({ type: 'quote', trip_id: trip, member_id: memberId, result: offer });
  const read = (field: string) => `$(node -p "require('${credentials}').console.${field}")`;
  return (
    `curl -sS ${target(url, tls.certFile)}/api/v1/handoff -H 'Content-Type: application/json' ` +
    `-H "x-api-key: ${read('apiKey')}" -H "x-api-secret: ${read('apiSecret')}" -d '${body}'`
  );
}

/**
 * Curl's options and address: with TLS it trusts the service's own certificate, and calls it by a name that stands in it.
 */
function target(url: string, certFile: string | undefined): string {
  if (certFile === undefined) return url;
  const { hostname, port } = new URL(url);
  const certificate = new X509Certificate(readFileSync(certFile));
  const file = `--cacert '${resolve(certFile)}'`;
  const isNamed = (certificate.checkIP(hostname) ?? certificate.checkHost(hostname)) !== undefined;
  const name = isNamed ? undefined : /DNS:([\w.-]+)/.exec(certificate.subjectAltName ?? '')?.[1];
  return name === undefined
    ? `${file} ${url}`
    : `${file} --connect-to ::${hostname}:${port} https://${name}:${port}`;
}
