import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type CrmCheck, createCrmCheck } from '../crm/crm-check.ts';
import { type SimulatedOrg, startSimulatedOrg } from '../embedded/simulators.ts';
import { parseWebhookSecrets, webhookSecretName } from '../features/crm-webhooks/secrets.ts';
import { checkDiningPartner } from '../features/reservations/connectors/dining/dining-check.ts';
import { createConsumers } from '../identity/consumers/consumers.ts';
import { consumersFolder } from '../identity/consumers/stored-consumer.ts';
import { FileLockHeld, lockDataDir } from '../platform/base/file-lock.ts';
import { connectRedis, openDatabase } from '../platform/command-line/stores.ts';
import { createLog } from '../platform/observability/log.ts';
import { createMetrics } from '../platform/observability/metrics.ts';
import { openSecretsManager } from '../platform/secrets/secrets.ts';
import type { SecretsManager } from '../platform/secrets/secrets-manager.ts';
import { loadSettings } from '../platform/settings/settings.ts';
import type { CrmSettings, DiningSettings, Settings } from '../platform/settings/table.ts';
import { compareSchema } from '../platform/store/migrate.ts';
import { member } from '../records/members.ts';
import { booking, quote } from '../records/quotes-and-bookings.ts';

/** The check of one part of the service. */
export interface Check {
  name: string;
  /** Checks that must have succeeded before. */
  needs: readonly string[];
  /** Resolves to what it found. Throws what is wrong, and `NothingToCheck`. */
  run(context: DoctorContext): Promise<string>;
}

/** The part does not exist yet, or another process uses it. */
export class NothingToCheck extends Error {}

/** What a lock says about this process. */
const purpose = 'handoff doctor';

type CrmToken = Awaited<ReturnType<CrmCheck['signIn']>>;

/** What earlier checks opened or found, for later ones. */
export interface DoctorContext {
  configFile: string | undefined;
  opened: AsyncDisposableStack;
  settings?: Settings;
  secrets?: SecretsManager;
  /** This process holds the lock of the data folder. */
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
  { name: 'CRM changes', needs: ['CRM fields'], run: checkChanges },
  { name: 'dining partner', needs: ['secrets manager'], run: checkDining },
];

async function checkSettings(context: DoctorContext): Promise<string> {
  const settings = loadSettings(process.env, context.configFile);
  context.settings = settings;
  return `environment ${settings.environment}`;
}

async function checkSecrets(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const secrets = await openSecretsManager(settings, createLog('silent'));
  context.opened.defer(() => secrets.close());
  await secrets.checkHealth();
  context.secrets = secrets;
  return settings.secretsManager === 'file' ? `files in ${settings.secretsDir}` : settings.secretsManager;
}

/** Without a consumer the keys are not read: that would make them, which is left to the service. */
async function checkConsumers(context: DoctorContext): Promise<string> {
  const secrets = secretsOf(context);
  const names = await secrets.list(consumersFolder);
  if (names.length === 0)
    return 'no consumers yet: make one with `handoff consumer create`, or by a first start';
  const log = createLog('silent');
  const consumers = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
  await consumers.keys.load();
  const found = await Promise.allSettled(
    names.map((name) => consumers.store.find(name.slice(consumersFolder.length + 1))),
  );
  const broken = found.filter(({ status }) => status === 'rejected').length;
  if (broken === 0) return `${(await consumers.store.list()).length} consumers`;
  throw new Error(`${broken} of ${names.length} consumers can't be read: restore them, or delete them.`);
}

/** Several are valid at once while senders change from one to the next. */
async function checkWebhookSecrets(context: DoctorContext): Promise<string> {
  const found = await secretsOf(context).read(webhookSecretName);
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

async function checkDatabase(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const { databaseUrl, dataDir } = settings;
  if (!databaseUrl && !existsSync(join(dataDir, 'database'))) {
    throw new NothingToCheck('embedded; the first start makes it');
  }
  const database = await unlessInUse(openDatabase(settings, context.opened, purpose));
  context.isLocked = !databaseUrl;
  const { applied, known, missing, refusal } = await compareSchema(database);
  const what = databaseUrl ? 'PostgreSQL' : 'embedded';
  if (refusal !== undefined) throw new Error(refusal);
  if (applied > known) return `${what}, schema version ${applied} of a newer program, on which this one runs`;
  if (missing === 0) return `${what}, schema version ${applied}`;
  return `${what}, schema version ${applied} of ${known}: the service brings it up to date when it starts`;
}

async function checkCache(context: DoctorContext): Promise<string> {
  const { redisUrl } = settingsOf(context);
  if (redisUrl === undefined) return 'in the process';
  const cache = await connectRedis(redisUrl, context.opened);
  await cache.checkHealth().catch(({ message }: Error) => {
    throw new Error(`Redis does not answer: check redisUrl and the way there (${message}).`);
  });
  return 'Redis';
}

async function checkPrivateKey(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const secrets = secretsOf(context);
  const org = await startOrg(context);
  const crm = createCrmCheck({
    ...({ ...settings.crm, ...org?.settings } as CrmSettings),
    environment: settings.environment,
    secrets,
    metrics: createMetrics(),
  });
  context.opened.defer(() => crm.close());
  context.crm = crm;
  context.assertion = await crm.sign();
  return `${settings.crm.privateKeySecret}${org ? ', of the simulated org' : ''}`;
}

/** The simulated org runs inside the service. Where no service runs, it is started for the time of the checks. */
async function startOrg(context: DoctorContext): Promise<SimulatedOrg | undefined> {
  const settings = settingsOf(context);
  if (settings.crm.loginUrl) return undefined;
  const secrets = secretsOf(context);
  if ((await secrets.read(settings.crm.privateKeySecret)) === undefined) {
    throw new NothingToCheck('crm.* is not set: a simulated org is used, and the first start makes it');
  }
  if (!context.isLocked) {
    const lock = await unlessInUse(lockDataDir(settings.dataDir, purpose));
    context.opened.defer(() => lock.release());
    context.isLocked = true;
  }
  return startSimulatedOrg(settings, secrets, context.opened);
}

/** A running service is not disturbed: its data folder is left alone then. */
function unlessInUse<T>(opening: Promise<T>): Promise<T> {
  return opening.catch((error: unknown) => {
    if (!(error instanceof FileLockHeld)) throw error;
    throw new NothingToCheck(`embedded; ${error.fact}: see its GET /v1/healthz, or stop it first`);
  });
}

async function checkToken(context: DoctorContext): Promise<string> {
  const crm = crmOf(context);
  context.token = await crm.signIn(context.assertion as string);
  return `for ${context.token.instanceUrl}`;
}

async function checkCall(context: DoctorContext): Promise<string> {
  const user = await crmOf(context).whoAmI(context.token as CrmToken);
  if (user === undefined) throw new Error('The CRM does not say who we are: give the app the scope id.');
  return `we are ${user.Name}`;
}

async function checkFields(context: DoctorContext): Promise<string> {
  const resources = [member, quote, booking];
  const faults: string[] = [];
  const lacks: string[] = [];
  const slow: string[] = [];
  for (const resource of resources) {
    const found = await crmOf(context)
      .inspect(resource, context.token as CrmToken)
      .catch((error: Error) => ({
        ...{ faults: [`${resource.crmObject}: ${error.message}`], lacks: [], slow: [] },
      }));
    faults.push(...found.faults);
    lacks.push(...found.lacks);
    slow.push(...found.slow);
  }
  const advice = 'Deploy the package in salesforce/ and assign its permission set to the integration user.';
  if (faults.length > 0) throw new Error([...faults, ...lacks, advice].join('\n'));
  const objects = resources.map(({ crmObject }) => crmObject).join(', ');
  if (lacks.length + slow.length === 0) return objects;
  const lines = [
    ...(lacks.length === 0 ? [] : ['the service works without:', ...lacks]),
    ...(slow.length === 0 ? [] : ['without an index lists become slow as records become many:', ...slow]),
  ];
  return [`${objects}; ${lines[0]}`, ...lines.slice(1), advice].join('\n');
}

/** Whoever may not see deleted records cannot tell of deletions. */
async function checkChanges(context: DoctorContext): Promise<string> {
  if (settingsOf(context).changes.pollSeconds === 0) throw new NothingToCheck('changes.pollSeconds is 0');
  const resources = [member, quote, booking];
  await crmOf(context)
    .readChanges(resources, context.token as CrmToken)
    .catch((error: Error) => {
      const advice = 'The integration user needs View All Records on Contact, Quote__c and Booking__c.';
      throw new Error(`Changes and deleted records cannot be read: ${error.message} ${advice}`);
    });
  return 'created, changed and deleted records can be read';
}

async function checkDining(context: DoctorContext): Promise<string> {
  const { dining, production } = settingsOf(context);
  if (dining.baseUrl === undefined) {
    const instead = production ? 'there are no reservations' : 'a simulated partner runs inside the service';
    throw new NothingToCheck(`dining.* is not set: ${instead}`);
  }
  const secrets = secretsOf(context);
  return checkDiningPartner({ ...(dining as DiningSettings), secrets, metrics: createMetrics() });
}

function settingsOf({ settings }: DoctorContext): Settings {
  return settings as Settings;
}

function secretsOf({ secrets }: DoctorContext): SecretsManager {
  return secrets as SecretsManager;
}

function crmOf({ crm }: DoctorContext): CrmCheck {
  return crm as CrmCheck;
}
