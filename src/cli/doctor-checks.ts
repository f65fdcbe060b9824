import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createCrmCheck } from '../crm/crm-check.ts';
import { orgSimulator, type SimulatedOrg } from '../crm/simulated-org.ts';
import {
  type CrmToken,
  crmOf,
  type DoctorCheck,
  type DoctorContext,
  NothingToCheck,
  secretsOf,
  settingsOf,
} from '../feature.ts';
import { features } from '../features.ts';
import { createConsumers } from '../identity/consumers/consumers.ts';
import { consumersFolder } from '../identity/consumers/stored-consumer.ts';
import { FileLockHeld, lockDataDir } from '../platform/base/file-lock.ts';
import { connectRedis, openDatabase } from '../platform/command-line/stores.ts';
import { createLog } from '../platform/observability/log.ts';
import { createMetrics } from '../platform/observability/metrics.ts';
import { openSecretsManager } from '../platform/secrets/secrets.ts';
import type { CrmSettings } from '../platform/settings/table.ts';
import { withSimulated } from '../platform/simulators/simulator.ts';
import { compareSchema } from '../platform/store/migrate.ts';
import { member } from '../records/members.ts';
import { booking, quote } from '../records/quotes-and-bookings.ts';

/** What a lock says about this process. */
const purpose = 'handoff doctor';

/** Every check, those of the features last. */
export const checks: readonly DoctorCheck[] = [
  { name: 'settings', needs: [], run: checkSettings },
  { name: 'secrets manager', needs: ['settings'], run: checkSecrets },
  { name: 'keys and consumers', needs: ['secrets manager'], run: checkConsumers },
  { name: 'database', needs: ['settings'], run: checkDatabase },
  { name: 'cache', needs: ['settings'], run: checkCache },
  { name: 'CRM private key', needs: ['secrets manager'], run: checkPrivateKey },
  { name: 'CRM token', needs: ['CRM private key'], run: checkToken },
  { name: 'CRM call', needs: ['CRM token'], run: checkCall },
  { name: 'CRM fields', needs: ['CRM token'], run: checkFields },
  ...features.flatMap(({ checks: ofFeature }) => ofFeature ?? []),
];

async function checkSettings(context: DoctorContext): Promise<string> {
  const settings = context.load();
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
    ...(withSimulated(settings, org).crm as CrmSettings),
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
  return orgSimulator.start(settings, secrets, context.opened);
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
