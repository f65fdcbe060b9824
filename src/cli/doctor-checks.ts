import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readTlsFiles } from '../api/tls/tls-files.ts';
import { resourcesFor } from '../app/settings.ts';
import { explain, factOf, isLoginHost, openCrmCheck, type SignInAddress } from '../crm/crm-check.ts';
import { orgSimulator, type SimulatedOrg } from '../crm/simulated-org.ts';
import { TokenFailure } from '../crm/token/token-endpoint.ts';
import { readKnownOrg } from '../crm/token/token-provider.ts';
import {
  crmOf,
  type DoctorCheck,
  type DoctorContext,
  NothingToCheck,
  orgOf,
  secretsOf,
  settingsOf,
} from '../feature.ts';
import { features } from '../features.ts';
import { createConsumers } from '../identity/consumers/consumers.ts';
import { consumersFolder } from '../identity/consumers/stored-consumer.ts';
import { wallMs } from '../platform/base/chance.ts';
import { FileLockHeld, lockDataDir } from '../platform/base/files.ts';
import { dayMs } from '../platform/base/moment.ts';
import { inTime } from '../platform/base/waiting.ts';
import { cacheKeyName, createAuthenticatedCache, loadCacheKeys } from '../platform/cache/authenticated.ts';
import type { SharedCache } from '../platform/cache/shared-cache.ts';
import { connectRedis, openDatabase } from '../platform/command-line/stores.ts';
import { createLog } from '../platform/observability/log.ts';
import { createMetrics } from '../platform/observability/metrics.ts';
import { openSecretsManager } from '../platform/secrets/secrets.ts';
import type { TlsSettings } from '../platform/settings/table.ts';
import { withSimulated } from '../platform/simulators/simulator.ts';
import { compareSchema } from '../platform/store/migrate.ts';
import { checkMayMigrate, checkRights } from '../platform/store/rights.ts';
import { listOf, resourcesOf } from '../records/mapping.ts';

const purpose = 'handoff doctor';

export const checks: readonly DoctorCheck[] = [
  { name: 'settings', needs: [], run: checkSettings },
  { name: 'secrets manager', needs: ['settings'], run: checkSecrets },
  { name: 'keys and consumers', needs: ['secrets manager'], run: checkConsumers },
  { name: 'database', needs: ['settings'], run: checkDatabase },
  { name: 'cache', needs: ['settings'], run: checkCache },
  { name: 'TLS', needs: ['settings'], run: checkTls },
  { name: 'Salesforce private key', needs: ['secrets manager'], run: checkPrivateKey },
  { name: 'Salesforce certificate', needs: ['Salesforce private key'], run: checkCertificate },
  { name: 'Salesforce sign-in', needs: ['Salesforce private key'], run: checkToken },
  { name: 'Salesforce version', needs: ['Salesforce sign-in'], run: checkVersion },
  { name: 'Salesforce user', needs: ['Salesforce sign-in'], run: checkCall },
  { name: 'Salesforce fields', needs: ['Salesforce version'], run: checkFields },
  { name: 'Salesforce owners', needs: ['Salesforce fields'], run: checkOwners },
  { name: 'Salesforce calls', needs: ['Salesforce fields'], run: checkCalls },
  ...features.flatMap(({ checks: ofFeature }) => ofFeature ?? []),
];

async function checkSettings(context: DoctorContext): Promise<string> {
  const settings = context.load();
  context.settings = settings;
  return `${settings.environment} environment`;
}

async function checkSecrets(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const secrets = await openSecretsManager(settings, createLog('silent'));
  context.opened.defer(() => secrets.close());
  await secrets.checkHealth();
  context.secrets = secrets;
  return settings.secretsManager === 'file' ? `files in ${settings.secretsDir}` : settings.secretsManager;
}

async function checkConsumers(context: DoctorContext): Promise<string> {
  const secrets = secretsOf(context);
  const names = await secrets.list(consumersFolder);
  if (names.length === 0)
    return 'No consumers yet. Create one with `handoff consumers create`, or start the gateway, which creates the first ones.';
  const log = createLog('silent');
  const consumers = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
  await consumers.keys.load();
  const found = await Promise.allSettled(
    names.map((name) => consumers.store.find(name.slice(consumersFolder.length + 1))),
  );
  const broken = found.filter(({ status }) => status === 'rejected').length;
  if (broken === 0) return `${(await consumers.store.list()).length} consumers`;
  throw new Error(
    `Can't read ${broken} of ${names.length} consumers. Restore them from a backup, or delete them.`,
  );
}

async function checkDatabase(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const { databaseUrl, dataDir } = settings;
  if (!databaseUrl && !existsSync(join(dataDir, 'database'))) {
    throw new NothingToCheck('The first start creates the embedded database.');
  }
  const database = await unlessInUse(openDatabase(settings, context.opened, purpose));
  context.isLocked = !databaseUrl;
  await checkRights(database);
  const { applied, known, missing, refusal } = await compareSchema(database);
  const what = databaseUrl ? 'PostgreSQL' : 'embedded';
  if (refusal !== undefined) throw new Error(refusal);
  if (applied > known)
    return `${what}, schema version ${applied}, from a newer version that this one is compatible with`;
  if (missing === 0) return `${what}, schema version ${applied}`;
  await checkMayMigrate(database);
  return `${what}, schema version ${applied} of ${known}; the gateway updates it at its next start`;
}

async function checkCache(context: DoctorContext): Promise<string> {
  const { redisUrl } = settingsOf(context);
  if (redisUrl === undefined) return 'in memory';
  const cache = await connectRedis(redisUrl, context.opened);
  await checkRedis(cache).catch(({ message }: Error) => {
    throw new Error(`Can't use Redis (${message}). Check redisUrl, the network, and what its user may do.`);
  });
  context.cache = cache;
  return 'Redis';
}

const longestSubscribeMs = 2000;

async function checkRedis(cache: SharedCache): Promise<void> {
  await cache.checkHealth();
  const joined = Promise.withResolvers<void>();
  cache.subscribe('doctor', () => undefined, joined.resolve);
  const late = () => new Error('no subscription within 2 seconds');
  await inTime(joined.promise, longestSubscribeMs, late).catch(async (error: Error) => {
    // Health says why, where Redis refuses it.
    await cache.checkHealth();
    throw error;
  });
}

const tlsDays = 14;

async function checkTls(context: DoctorContext): Promise<string> {
  const { tls } = settingsOf(context);
  if (tls.certFile === undefined)
    throw new NothingToCheck("tls.certFile isn't set: the API port is plain HTTP.");
  const { cert } = (await readTlsFiles(tls as TlsSettings)).context;
  const { validFromDate, validToDate } = new X509Certificate(String(cert));
  const end = validToDate.toISOString().slice(0, 10);
  const left = validToDate.getTime() - wallMs();
  if (left < 0) throw new Error(`tls.certFile expired on ${end}. Replace it: clients refuse it.`);
  // Certificates that live for days are renewed when a third of their life is left.
  const soon = Math.min(tlsDays * dayMs, (validToDate.getTime() - validFromDate.getTime()) / 3);
  if (left < soon)
    throw new Error(`tls.certFile expires on ${end}. Renew it; the gateway reads the new one at once.`);
  return `expires on ${end}`;
}

async function checkPrivateKey(context: DoctorContext): Promise<string> {
  const settings = settingsOf(context);
  const secrets = secretsOf(context);
  const org = await startOrg(context);
  const connected = withSimulated(settings, org);
  context.resources = resourcesFor(connected);
  context.crm = openCrmCheck(connected, secrets, context.opened);
  context.assertion = await context.crm.sign();
  return `${settings.crm.privateKeySecret}${org ? ' (simulated org)' : ''}`;
}

const certificateDays = 30;

async function checkCertificate(context: DoctorContext): Promise<string> {
  const { certificate } = crmOf(context);
  if (settingsOf(context).crm.loginUrl === undefined)
    throw new NothingToCheck("The simulated org doesn't need one.");
  if (certificate === undefined)
    throw new NothingToCheck(
      'Add the certificate to the private key file, and the gateway watches when it expires.',
    );
  if (!certificate.fits) throw new Error("The certificate in the private key file doesn't match the key.");
  const end = new Date(certificate.endsAt).toISOString().slice(0, 10);
  if (certificate.endsAt - wallMs() < certificateDays * dayMs)
    throw new Error(`It expires on ${end}. See "A new certificate" in salesforce-org.md.`);
  return `expires on ${end}`;
}

async function startOrg(context: DoctorContext): Promise<SimulatedOrg | undefined> {
  const settings = settingsOf(context);
  if (settings.crm.loginUrl) return undefined;
  const secrets = secretsOf(context);
  if ((await secrets.read(settings.crm.privateKeySecret)) === undefined) {
    throw new NothingToCheck(
      "crm.* isn't set, so the gateway uses a simulated org, which the first start creates.",
    );
  }
  if (!context.isLocked) {
    const lock = await unlessInUse(lockDataDir(settings.dataDir, purpose));
    context.opened.defer(() => lock.release());
    context.isLocked = true;
  }
  return orgSimulator.start(settings, secrets, context.opened);
}

function unlessInUse<T>(opening: Promise<T>): Promise<T> {
  return opening.catch((error: unknown) => {
    if (!(error instanceof FileLockHeld)) throw error;
    throw new NothingToCheck(`${error.fact}. Ask its GET /v1/healthz, or stop it first.`);
  });
}

async function checkToken(context: DoctorContext): Promise<string> {
  const { crm } = settingsOf(context);
  try {
    context.org = await crmOf(context).signIn(context.assertion as string);
  } catch (error) {
    if (!(error instanceof TokenFailure) || !addressFaults.includes(error.reason)) throw error;
    const found = await crmOf(context).findSignIn(await ownAddress(context));
    throw found === undefined ? error : new Error(`${error.message}\n${signsInWith(found)}`);
  }
  const { instanceUrl } = context.org;
  const advice = `\nSet crm.loginUrl to this address and leave crm.audience unset: the org may stop accepting ${crm.loginUrl}.`;
  return `signed in to ${instanceUrl}${isLoginHost(crm.loginUrl ?? '') ? advice : ''}`;
}

/**
 * The org's own address, as services have noted it in Redis. It is taken with their authentication code only: assertions are
 * sent there, also those that other hosts take.
 */
async function ownAddress(context: DoctorContext): Promise<string | undefined> {
  const { environment } = settingsOf(context);
  const secrets = secretsOf(context);
  // The key is left to the service to make.
  if (context.cache === undefined || (await secrets.read(cacheKeyName(environment))) === undefined)
    return undefined;
  const cache = createAuthenticatedCache({
    cache: context.cache,
    keys: await loadCacheKeys(secrets, environment),
    log: createLog('silent'),
    metrics: createMetrics(),
  });
  return (await readKnownOrg(cache, environment)).instanceUrl;
}

const addressFaults = ['app_not_found', 'invalid_grant', 'invalid_client_id', 'invalid_client'];

function signsInWith({ loginUrl, audience }: SignInAddress): string {
  const rest = audience === loginUrl ? ', and leave crm.audience unset' : ` and crm.audience to ${audience}`;
  return `Sign-in works if you set crm.loginUrl to ${loginUrl}${rest}.`;
}

function checkVersion(context: DoctorContext): Promise<string> {
  return orgOf(context).checkVersion();
}

async function checkCalls(context: DoctorContext): Promise<string> {
  const { usage } = orgOf(context);
  if (usage === undefined) return "Salesforce doesn't report how many are used";
  const { used, limit, usedByApp } = usage;
  const ofApp = usedByApp === undefined ? "this app's share isn't reported" : `${usedByApp} by this app`;
  return `${used} of ${limit} used in the last 24 hours, ${ofApp}`;
}

async function checkCall(context: DoctorContext): Promise<string> {
  const user = await orgOf(context).whoAmI();
  if (user === undefined)
    throw new Error("Salesforce doesn't say which user this is. Add the scope `id` to the app.");
  const address = await orgOf(context).seenFrom(user);
  return `${user.Name}${address === undefined ? '' : `, last signed in from ${address}`}`;
}

async function checkOwners(context: DoctorContext): Promise<string> {
  const resources = context.resources ?? resourcesOf();
  if (listOf(resources).every((resource) => !('owner' in resource)))
    throw new NothingToCheck(
      'The integration user owns all records: neither crm.ownerMatch nor a mapping names other owners.',
    );
  const problems = await orgOf(context).inspectOwners(resources);
  if (problems.length > 0) throw new Error(problems.map(explain).join('\n'));
  return 'all owners can be looked up';
}

async function checkFields(context: DoctorContext): Promise<string> {
  const resources = context.resources ?? resourcesOf();
  const found = await orgOf(context).inspect(resources);
  const [faults, lacks] = [found.faults.map(factOf), found.lacks.map(factOf)];
  const { slow } = found;
  const isMapped = settingsOf(context).crm.mappingFile !== undefined;
  const advice = isMapped
    ? 'Run `handoff org check`: it says what to do about each. Make fields without an index external IDs in Setup.'
    : "Deploy the package in salesforce/ and assign its permission set to the integration user, or name the org's own fields in " +
      'a mapping (crm.mappingFile).';
  if (faults.length > 0) throw new Error([...faults, ...lacks, advice].join('\n'));
  const objects = listOf(resources)
    .map(({ crmObject }) => crmObject)
    .join(', ');
  if (lacks.length + slow.length === 0) return objects;
  const lines = [
    ...(lacks.length === 0 ? [] : ['The gateway works without these:', ...lacks]),
    ...(slow.length === 0
      ? []
      : ['Lists get slow with many records, because these fields have no index:', ...slow]),
  ];
  return [objects, ...lines, advice].join('\n');
}
