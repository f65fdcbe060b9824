import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { isAddressOrNetwork } from '../../platform/base/networks.ts';
import {
  type Consumer,
  consumerSchema,
  normaliseFingerprints,
  ownableResources,
  type Permission,
  permissionResources,
  permissionSchema,
  recordsOf,
} from './consumer.ts';
import { consumerIdOf } from './credentials.ts';

/** A permission of any version: what this one does not know must not make the whole record unusable. */
const anyPermission = Type.Object({ resource: Type.String(), actions: Type.Array(Type.String()) });

/**
 * A consumer as it stands in the secrets manager (`consumers/<id>`). The first versions refuse a record with a
 * resource that they do not know, take `own` for `all`, and do not know `enabled`: so `permissions` holds what they may
 * grant, and `furtherPermissions` the rest. Later ones do not know `approval` and `fields`, and would grant what they hold
 * back: so `records` then has a form that they do not know either.
 */
const storedSchema = Type.Object({
  ...consumerSchema.properties,
  permissions: Type.Array(anyPermission),
  furtherPermissions: Type.Optional(Type.Array(anyPermission)),
});

const records = Compile(storedSchema);
/** A permission that a newer version restricts in an unknown way grants nothing here. */
const permissions = Compile(Type.Object(permissionSchema.properties, { additionalProperties: false }));
const firstResources: readonly string[] = ['members', 'quotes', 'bookings', 'consumers'];

export const consumersFolder = 'consumers';

export function consumerSecretName(id: string): string {
  return `${consumersFolder}/${id}`;
}

/** A stored record can't be used; the message names the faulty places and never repeats the content. */
export class BrokenConsumer extends Error {
  override readonly name = 'BrokenConsumer';
}

export function undefinedIfBroken(error: unknown): undefined {
  if (!(error instanceof BrokenConsumer)) throw error;
}

/** Throws `BrokenConsumer`. */
export function parseConsumer(name: string, value: string): Consumer {
  const record = parseJson(name, value);
  if (!records.Check(record)) {
    const where = [...new Set(records.Errors(record).map((error) => error.instancePath || '/'))].slice(0, 5);
    throw new BrokenConsumer(`${name} isn't a consumer record; see ${where.join(', ')}`);
  }
  if (consumerSecretName(record.id) !== name) throw new BrokenConsumer(`${name} holds another consumer's id`);
  const foreign = record.credentials.some(({ apiKey }) => consumerIdOf(apiKey) !== record.id);
  if (foreign) throw new BrokenConsumer(`${name} holds another consumer's API key`);
  const { furtherPermissions = [], ...rest } = record;
  // Where an older version has changed the permissions since, its word counts for their resources.
  const changed = new Set(record.permissions.map(({ resource }) => resource));
  const further = furtherPermissions.filter(({ resource }) => !changed.has(resource));
  const stored = [...record.permissions, ...further];
  const known = stored.map(fromStored).filter(isKnown);
  if (!(record.allowedAddresses ?? []).every(isAddressOrNetwork))
    throw new BrokenConsumer(`${name} has allowedAddresses that aren't addresses or blocks`);
  // As they stand: in another form, an older version might grant them.
  const unknown = stored.filter((permission) => !isKnown(fromStored(permission)));
  return {
    ...rest,
    permissions: permissionResources.flatMap((one) => known.filter(({ resource }) => resource === one)),
    ...(unknown.length > 0 && { unknownPermissions: unknown }),
    // Those written by hand may have another form.
    certificateFingerprints: normaliseFingerprints(record.certificateFingerprints),
  };
}

/** Longer records are stored without white space: a secrets manager takes 64 KiB. */
const maxReadableBytes = 32 * 1024;

export function formatConsumer({ unknownPermissions = [], ...consumer }: Consumer): string {
  const isGranted = (one: Permission) => consumer.enabled !== false && isForAllVersions(one);
  const granted = consumer.permissions.filter(isGranted);
  const others = consumer.permissions.filter((permission) => !isGranted(permission));
  const further = [...others.map(toStored), ...unknownPermissions];
  const record = {
    ...consumer,
    permissions: granted,
    ...(further.length > 0 && { furtherPermissions: further }),
  };
  const readable = `${JSON.stringify(record, null, 2)}\n`;
  return Buffer.byteLength(readable) <= maxReadableBytes ? readable : `${JSON.stringify(record)}\n`;
}

function isKnown(permission: unknown): permission is Permission {
  if (!permissions.Check(permission)) return false;
  const isNarrowed = permission.records === 'own' || permission.approval === true;
  return !isNarrowed || ownableResources.includes(permission.resource);
}

function isForAllVersions(permission: Permission): boolean {
  const { resource, records: scope } = permission;
  return firstResources.includes(resource) && scope !== 'own' && !isNewlyNarrowed(permission);
}

function isNewlyNarrowed({ approval, fields }: Permission): boolean {
  return approval === true || fields !== undefined;
}

function toStored(permission: Permission): unknown {
  if (!isNewlyNarrowed(permission)) return permission;
  return { ...permission, records: { scope: recordsOf(permission) } };
}

function fromStored(permission: object): object {
  const { records: scope } = permission as { records?: unknown };
  const isWrapped = typeof scope === 'object' && scope !== null && 'scope' in scope;
  if (!isWrapped) return permission;
  const { records: _, ...rest } = permission as { records: unknown };
  return scope.scope === 'all' ? rest : { ...rest, records: scope.scope };
}

function parseJson(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    // The parser's own message quotes the text.
    throw new BrokenConsumer(`${name} isn't JSON`);
  }
}
