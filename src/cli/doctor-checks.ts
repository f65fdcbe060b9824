import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { FileLockHeld, tryAcquireFileLock } from '../base/file-lock.ts';
import { checkDiningPartner } from '../connectors/dining/dining-check.ts';
import { consumersFolder } from '../consumers/consumer.ts';
import { createConsumers } from '../consumers/create-consumers.ts';
import { type CrmCheck, createCrmCheck } from '../crm/crm-check.ts';
import { startSimulatedOrg } from '../embedded/simulated-org.ts';
import { createLog } from '../observability/log.ts';
import { createMetrics } from '../observability/metrics.ts';
import { member } from '../resources/members.ts';
import { booking, quote } from '../resources/quotes-and-bookings.ts';
import { openSecretsManager } from '../secrets/open-secrets-manager.ts';
import type { SecretsManager } from '../secrets/secrets-manager.ts';
import { type CrmAddress, loadSettings, type Settings } from '../settings/settings.ts';
import type { Database } from '../store/database.ts';
import { compareSchema } from '../store/migrate.ts';
import { parseWebhookSecrets, webhookSecretName } from '../webhooks/secrets.ts';
import { connectRedis } from './connect-redis.ts';

/** One part of the service, looked at. */
export interface Check {
  name: string;
  /** Checks that must have succeeded before. */
  needs: readonly string[];
  /** Says what it found. Throws what is wrong, and `NothingToCheck`. */
  run(patient: Patient): Promise<string>;
}

/** There is nothing to look at yet, or somebody else has it. */
export class NothingToCheck extends Error {}

type CrmToken = Awaited<ReturnType<CrmCheck['signIn']>>;

/** What earlier checks have opened or found out, for later ones. */
export interface Patient {
  configFile: string | undefined;
  opened: AsyncDisposableStack;
  settings?: Settings;
  secrets?: SecretsManager;
  /** The data folder is ours while we look. */
  isLocked?: boolean;
  crm?: CrmCheck;
  assertion?: string;
  token?: CrmToken;
}

export const checks: readonly Check[] = [
  { name: 'settings', needs: [], run: checkSettings },
  { name: 'secrets manager', needs: ['settings'], run: checkSecrets },
  { name: 'keys and consumers', needs: ['secrets manager'], run: checkConsumers },
  { name: 'webhook secrets', needs: ['secrets manager'], run: checkWebhookSecrets },
  { name: 'database', needs: ['settings'], run: checkDatabase },
  { name: 'cache', needs: ['settings'], run: checkCache },
  { name: 'CRM private key', needs: ['secrets manager'], run: checkPrivateKey },
  { name: 'CRM token', needs: ['CRM private key'], run: checkToken },
  { name: 'CRM call', needs: ['CRM token'], run: checkCall },
  { name: 'CRM fields', needs: ['CRM token'], run: checkFields },
  { name: 'dining partner', needs: ['secrets manager'], run: checkDining },
];

async function checkSettings(patient: Patient): Promise<string> {
  const settings = loadSettings(process.env, patient.configFile);
  patient.settings = settings;
  return `environment ${settings.environment}`;
}

async function checkSecrets(patient: Patient): Promise<string> {
  const { secretsManager: kind, secretsDir: dir } = settingsOf(patient);
  const secrets = await openSecretsManager({ kind, dir, env: process.env, log: createLog('silent') });
  patient.opened.defer(() => secrets.close());
  await secrets.checkHealth();
  patient.secrets = secrets;
  return kind === 'file' ? `files in ${dir}` : kind;
}

/** Without a consumer the keys are not looked at: reading would make them, and that is left to the service. */
async function checkConsumers(patient: Patient): Promise<string> {
  const secrets = secretsOf(patient);
  const { length } = await secrets.list(consumersFolder);
  if (length === 0) return 'no consumers yet: make one with `handoff consumer create`, or by a first start';
  const log = createLog('silent');
  const consumers = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
  await consumers.keys.load();
  const readable = (await consumers.store.list()).length;
  if (readable === length) return `${length} consumers`;
  throw new Error(`${length - readable} of ${length} consumers can't be read: restore them, or delete them.`);
}

/** Several are valid at once while senders change from one to the next. */
async function checkWebhookSecrets(patient: Patient): Promise<string> {
  const found = await secretsOf(patient).read(webhookSecretName);
  const { secrets, faults } = parseWebhookSecrets(found?.value ?? '');
  if (faults.length > 0) {
    throw new Error([`${webhookSecretName} has lines that are left out:`, ...faults].join('\n'));
  }
  if (secrets.length > 1)
    return `${secrets.length} valid at once; take the old one out when no sender uses it`;
  if (secrets.length === 1) return `one, in ${webhookSecretName}`;
  const hint = `put "whsec_" and 32 random bytes in base64 into ${webhookSecretName}`;
  return `none yet, so every webhook is refused: ${hint}`;
}

async function checkDatabase(patient: Patient): Promise<string> {
  const { databaseUrl, dataDir } = settingsOf(patient);
  const database = databaseUrl
    ? (await import('../store/postgres.ts')).openPostgres({ url: databaseUrl, log: createLog('silent') })
    : await openEmbedded(patient, join(dataDir, 'database'));
  patient.opened.defer(() => database.close());
  const { applied, known, missing, foreign } = await compareSchema(database);
  const what = databaseUrl ? 'PostgreSQL' : 'embedded';
  if (foreign !== undefined) {
    throw new Error(`The schema has version ${foreign}, this program knows ${known}: run the newer program.`);
  }
  if (missing === 0) return `${what}, schema version ${applied}`;
  return `${what}, schema version ${applied} of ${known}: the service brings it up to date when it starts`;
}

async function openEmbedded(patient: Patient, folder: string): Promise<Database> {
  if (!existsSync(folder)) throw new NothingToCheck('embedded; the first start makes it');
  await lockDataDir(patient);
  return (await import('../store/pglite.ts')).openPglite(folder);
}

async function checkCache(patient: Patient): Promise<string> {
  const { redisUrl } = settingsOf(patient);
  if (redisUrl === undefined) return 'in the process';
  const cache = await connectRedis(redisUrl);
  patient.opened.defer(() => cache.close());
  await cache.checkHealth().catch(({ message }: Error) => {
    throw new Error(`Redis does not answer: check redisUrl and the way there (${message}).`);
  });
  return 'Redis';
}

async function checkPrivateKey(patient: Patient): Promise<string> {
  const settings = settingsOf(patient);
  const secrets = secretsOf(patient);
  const address = settings.crm ?? (await startOrg(patient));
  const crm = createCrmCheck({
    ...address,
    environment: settings.environment,
    privateKeySecret: settings.crmPrivateKeySecret,
    apiVersion: settings.crmApiVersion,
    tokenLifetimeSeconds: settings.crmTokenLifetimeSeconds,
    timeoutMs: settings.crmTimeoutMs,
    maxConcurrency: 1,
    quotaReserve: 0,
    secrets,
    metrics: createMetrics(),
  });
  patient.opened.defer(() => crm.close());
  patient.crm = crm;
  patient.assertion = await crm.sign();
  return `${settings.crmPrivateKeySecret}${settings.crm ? '' : ', of the simulated org'}`;
}

/** The simulated org runs inside the service: where no service runs, it is started for as long as we look. */
async function startOrg(patient: Patient): Promise<CrmAddress> {
  const { dataDir, crmPrivateKeySecret: privateKeySecret } = settingsOf(patient);
  const secrets = secretsOf(patient);
  if ((await secrets.read(privateKeySecret)) === undefined) {
    throw new NothingToCheck('crm.* is not set: a simulated org is used, and the first start makes it');
  }
  await lockDataDir(patient);
  const org = await startSimulatedOrg({ secrets, privateKeySecret, dataDir });
  patient.opened.defer(() => org.close());
  return org.address;
}

/** A running service is not disturbed: what is in its data folder is then left alone. */
async function lockDataDir(patient: Patient): Promise<void> {
  if (patient.isLocked) return;
  const { dataDir } = settingsOf(patient);
  const description = { purpose: 'handoff doctor', subject: dataDir };
  const lock = await tryAcquireFileLock(join(dataDir, 'in-use'), description).catch((error: unknown) => {
    if (!(error instanceof FileLockHeld)) throw error;
    throw new NothingToCheck(`embedded; ${error.message}: see its GET /v1/healthz, or stop it first`);
  });
  patient.opened.defer(() => lock.release());
  patient.isLocked = true;
}

async function checkToken(patient: Patient): Promise<string> {
  const crm = crmOf(patient);
  patient.token = await crm.signIn(patient.assertion as string);
  return `for ${patient.token.instanceUrl}`;
}

async function checkCall(patient: Patient): Promise<string> {
  const user = await crmOf(patient).whoAmI(patient.token as CrmToken);
  if (user === undefined) throw new Error('The CRM does not say who we are: give the app the scope id.');
  return `we are ${user.Name}`;
}

async function checkFields(patient: Patient): Promise<string> {
  const resources = [member, quote, booking];
  const faults: string[] = [];
  for (const resource of resources) {
    const found = await crmOf(patient)
      .faultsOf(resource, patient.token as CrmToken)
      .catch((error: Error) => [`${resource.crmObject}: ${error.message}`]);
    faults.push(...found);
  }
  if (faults.length === 0) return resources.map(({ crmObject }) => crmObject).join(', ');
  const mend = 'Deploy the package in salesforce/ and assign its permission set to the integration user.';
  throw new Error([...faults, mend].join('\n'));
}

async function checkDining(patient: Patient): Promise<string> {
  const { dining, diningPasswordSecret: passwordSecret, production } = settingsOf(patient);
  if (dining === undefined) {
    const instead = production ? 'there are no reservations' : 'a simulated partner runs inside the service';
    throw new NothingToCheck(`dining.* is not set: ${instead}`);
  }
  const secrets = secretsOf(patient);
  return checkDiningPartner({ ...dining, passwordSecret, secrets, metrics: createMetrics() });
}

function settingsOf({ settings }: Patient): Settings {
  return settings as Settings;
}

function secretsOf({ secrets }: Patient): SecretsManager {
  return secrets as SecretsManager;
}

function crmOf({ crm }: Patient): CrmCheck {
  return crm as CrmCheck;
}
