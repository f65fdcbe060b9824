import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { wallMs } from '../../platform/base/chance.ts';
import { acquireFileLock, makeFolder, replaceFile, syncFolder } from '../../platform/base/files.ts';
import { type SecretsManager, VersionConflict } from '../../platform/secrets/secrets-manager.ts';
import type { Permission, PermissionResource } from './consumer.ts';
import { newConsumer } from './consumer-store.ts';
import type { Consumers } from './consumers.ts';
import { consumerIdOf, hasValidChecksum, makeConsumerId, makeCredentialPair } from './credentials.ts';
import { checkForLoss } from './loss-guard.ts';
import { recordChange, service } from './record-changes.ts';

const business: PermissionResource[] = ['members', 'quotes', 'bookings', 'webhooks'];
const resourcesOf = { console: business, admin: [...business, 'consumers'] } as const;
type FirstConsumer = keyof typeof resourcesOf;
const firstConsumers = Object.keys(resourcesOf) as FirstConsumer[];

const oneSchema = Type.Object({ id: Type.String(), apiKey: Type.String(), apiSecret: Type.String() });
const credentialsSchema = Type.Object({ console: oneSchema, admin: oneSchema });
type FirstCredentials = Static<typeof credentialsSchema>;
const credentialFiles = Compile(credentialsSchema);

interface FirstStartOptions {
  secrets: SecretsManager;
  consumers: Pick<Consumers, 'keys' | 'store'>;
  /** Folder of the file secrets manager; the lock lives here, since services may share it and not their dataDir. */
  secretsDir: string;
  dataDir: string;
  /** Milliseconds since 1970. */
  clock?: () => number;
}

/**
 * If the secrets manager has no consumer, makes `console` and `admin` and writes their credentials to
 * `<dataDir>/credentials.json` (mode 0600); returns that path, or undefined where there was nothing to do. For the
 * file secrets manager only, and never in production: the caller decides.
 *
 * The credentials are written first, to `credentials.json~draft`, then the consumers, then the draft is renamed. A
 * draft that is there at the start is the trace of a crash: its consumers are completed, whichever of them exist,
 * so no consumer is left whose secret no file holds. Where the file of an earlier start names consumers that were not
 * revoked, the secrets have been lost, and none are made. Throws `SecretsUnavailable`, `KeyUnusable`.
 */
export async function makeFirstConsumers(options: FirstStartOptions): Promise<string | undefined> {
  const { secrets, secretsDir, dataDir } = options;
  await makeFolder(secretsDir);
  await makeFolder(dataDir);
  const lock = await acquireFileLock(join(secretsDir, '~first-start'), { subject: secretsDir }, 30_000);
  try {
    const path = join(dataDir, 'credentials.json');
    const draft = `${path}~draft`;
    const unfinished = await readDraft(draft);
    if (unfinished === undefined && !(await options.consumers.store.isEmpty())) return undefined;
    if (unfinished === undefined)
      await checkForLoss(secrets, (revoked) => namesOthers(path, revoked), advice(path));
    const credentials = unfinished ?? makeCredentials();
    if (unfinished === undefined) await replaceFile(draft, `${JSON.stringify(credentials, null, 2)}\n`);
    for (const name of firstConsumers) await createIfMissing(name, credentials, options);
    await rename(draft, path);
    await syncFolder(dataDir);
    return path;
  } finally {
    await lock.release();
  }
}

async function namesOthers(path: string, revoked: readonly string[]): Promise<boolean> {
  const made = await readCredentials(path);
  return firstConsumers.some((name) => made !== undefined && !revoked.includes(made[name].id));
}

function advice(path: string): string {
  return `To start again with other consumers and other keys, delete ${path}.`;
}

function makeCredentials(): FirstCredentials {
  const one = () => {
    const id = makeConsumerId();
    return { id, ...makeCredentialPair(id) };
  };
  return { console: one(), admin: one() };
}

async function readDraft(path: string): Promise<FirstCredentials | undefined> {
  const draft = await readCredentials(path);
  if (draft === undefined) await rm(path, { force: true });
  return draft;
}

/** Undefined where there is no file, or one that this program did not write. */
async function readCredentials(path: string): Promise<FirstCredentials | undefined> {
  try {
    const content: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (credentialFiles.Check(content) && firstConsumers.every((name) => isWhole(content[name])))
      return content;
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!isAbsent && !(error instanceof SyntaxError)) throw error;
  }
  return undefined;
}

function isWhole({ id, apiKey, apiSecret }: FirstCredentials[FirstConsumer]): boolean {
  return consumerIdOf(apiKey) === id && hasValidChecksum(apiSecret);
}

async function createIfMissing(
  name: FirstConsumer,
  all: FirstCredentials,
  options: FirstStartOptions,
): Promise<void> {
  const { consumers, clock = wallMs } = options;
  const { id, ...pair } = all[name];
  const permissions = resourcesOf[name].map((resource): Permission => {
    return { resource, actions: ['read', 'write', 'delete'] };
  });
  const { pepper } = await consumers.keys.load();
  const consumer = newConsumer({ id, name, permissions }, pair, pepper, clock());
  try {
    await consumers.store.save(recordChange(null, consumer, service, clock()), null);
  } catch (error) {
    // Made before the crash.
    if (!(error instanceof VersionConflict)) throw error;
  }
}
