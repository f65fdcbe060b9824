import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { SimulatedOrg } from '../crm/simulated-org.ts';
import { features } from '../features.ts';
import { version } from '../platform/base/version.ts';
import type { Settings } from '../platform/settings/table.ts';
import { describeAddress, type Simulated } from '../platform/simulators/simulator.ts';
import { firstOffer } from './try.ts';

const trip = '6f9619ff-8b86-4d01-b42d-00cf4fc964ff';

interface Running {
  settings: Settings;
  url: string;
  operationsUrl: string | undefined;
  org: SimulatedOrg | undefined;
  simulated: Readonly<Record<string, Simulated>>;
  logFile: string | undefined;
}

export function banner(running: Running): string {
  const { settings, url, operationsUrl, org, simulated, logFile } = running;
  const { crm, dataDir, databaseUrl, redisUrl, secretsManager, secretsDir } = settings;
  const credentials = resolve(dataDir, 'credentials.json');
  // Made at the first start only, when there is no consumer yet.
  const hasCredentials = existsSync(credentials);
  const rowsOf = (kind: 'doors' | 'systems') =>
    features.flatMap(({ banner: own }) => own?.({ settings, url, simulated })[kind] ?? []);
  const rows: readonly (readonly [string, string, string?])[] = [
    ...rowsOf('doors'),
    hasCredentials
      ? ['Credentials', credentials, 'sign in with the key and secret of "console"']
      : ['Credentials', 'npm run handoff -- consumers create'],
    ...(hasCredentials ? [['First try', `${variablesFor(running)}npm run handoff -- try`] as const] : []),
    ['API', url, `docs at ${url}/v1/docs`],
    [crm.name, ...describeAddress(org, crm.loginUrl, 'set crm.* for a real org')],
    ...rowsOf('systems'),
    [
      'Data',
      databaseUrl ? 'PostgreSQL' : `embedded database in ${resolve(dataDir, 'database')}`,
      [
        redisUrl ? 'Redis' : 'cache in memory',
        `secrets in ${secretsManager === 'file' ? resolve(secretsDir) : secretsManager}`,
      ].join(', '),
    ],
    ['Metrics', operationsUrl === undefined ? 'off' : `${operationsUrl}/metrics`],
    ...(logFile === undefined
      ? []
      : ([
          ['Log', logFile],
          ['Stop', 'Ctrl+C'],
        ] as const)),
  ];
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  const table = rows.map(([name, what, note]) => `  ${name.padEnd(width)}${what}${note ? ` (${note})` : ''}`);
  return [
    '',
    `Handoff Gateway ${version} is running (${settings.environment})`,
    '',
    ...table,
    '',
    ...(hasCredentials && org
      ? ['Or paste this into another terminal:', '', curl(url, credentials, org.memberId, settings), '']
      : []),
  ].join('\n');
}

function variablesFor({ settings, url }: Running): string {
  const { dataDir, host, publicUrl, tls } = settings;
  const values = {
    DATA_DIR: resolve(dataDir),
    HOST: host,
    PORT: new URL(url).port,
    PUBLIC_URL: publicUrl,
    TLS_CERT_FILE: tls.certFile && resolve(tls.certFile),
  };
  return Object.entries(values)
    .filter(([name]) => process.env[name])
    .map(([name, value = '']) => `${name}=${/^[\w./:-]*$/.test(value) ? value : `'${value}'`} `)
    .join('');
}

function curl(url: string, credentials: string, memberId: string, { tls }: Settings): string {
  const body = JSON.stringify({ type: 'quote', trip_id: trip, member_id: memberId, result: firstOffer });
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
