import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { apiKeyPattern, consumerIdOf, consumerIdPattern } from './credentials.ts';

/** What permissions can be given on. Reservations need those on bookings. */
export const permissionResources = ['members', 'quotes', 'bookings', 'consumers'] as const;
export const permissionActions = ['read', 'write', 'delete'] as const;

export type PermissionResource = (typeof permissionResources)[number];
export type PermissionAction = (typeof permissionActions)[number];

export const permissionSchema = Type.Object({
  resource: Type.Enum(permissionResources),
  actions: Type.Array(Type.Enum(permissionActions), { minItems: 1 }),
});

const timestamp = Type.String({ format: 'date-time', maxLength: 40 });
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const storedCredentialSchema = Type.Object({
  apiKey: Type.String({ pattern: `^${apiKeyPattern}$` }),
  /** HMAC-SHA-256 of the API secret under the pepper of that version, base64url. */
  hash: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  algorithm: Type.Literal('hmac-sha256'),
  pepperVersion: Type.Integer({ minimum: 1 }),
  state: Type.Enum(['active', 'rotated']),
  createdAt: timestamp,
  /** From this moment on the pair is refused; null while it is active. */
  expiresAt: orNull(timestamp),
});

/**
 * A consumer as it stands in the secrets manager (`consumers/<id>`). Fields that this version does not know are
 * kept: during an update, a newer version may have written them.
 */
export const consumerSchema = Type.Object({
  id: Type.String({ pattern: `^${consumerIdPattern}$` }),
  name: Type.String({ minLength: 1 }),
  permissions: Type.Array(permissionSchema),
  createdAt: timestamp,
  updatedAt: timestamp,
  rotatedAt: orNull(timestamp),
  /** SHA-256 of the DER of client certificates, lower-case hex. */
  certificateFingerprints: Type.Array(Type.String()),
  credentials: Type.Array(storedCredentialSchema),
});

export type Permission = Static<typeof permissionSchema>;
export type StoredCredential = Static<typeof storedCredentialSchema>;
export type Consumer = Static<typeof consumerSchema>;

const records = Compile(consumerSchema);
const folder = 'consumers';

/** Folder of the consumers in the secrets manager. */
export const consumersFolder = folder;

/** Name of the secret that holds the consumer. */
export function consumerSecretName(id: string): string {
  return `${folder}/${id}`;
}

/** A stored record can't be used; the message names the faulty places and never repeats the content. */
export class BrokenConsumer extends Error {
  override readonly name = 'BrokenConsumer';
}

/** The consumer in a secret of that name. Throws `BrokenConsumer`. */
export function parseConsumer(name: string, value: string): Consumer {
  const record = parseJson(name, value);
  if (!records.Check(record)) {
    const where = [...new Set(records.Errors(record).map((error) => error.instancePath || '/'))].slice(0, 5);
    throw new BrokenConsumer(`${name} is not a consumer record; see ${where.join(', ')}`);
  }
  if (consumerSecretName(record.id) !== name) throw new BrokenConsumer(`${name} holds another consumer's id`);
  const foreign = record.credentials.some(({ apiKey }) => consumerIdOf(apiKey) !== record.id);
  if (foreign) throw new BrokenConsumer(`${name} holds an API key that is not of this consumer`);
  // Those written by hand may have another form.
  return { ...record, certificateFingerprints: normaliseFingerprints(record.certificateFingerprints) };
}

function parseJson(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    // The parser's own message quotes the text.
    throw new BrokenConsumer(`${name} is not JSON`);
  }
}

/**
 * From when on the pair is refused, milliseconds since 1970: never while it is active. A rotated pair without an expiry
 * would stay valid for ever by mistake: it counts as expired.
 */
export function expiryOf({ state, expiresAt }: StoredCredential): number {
  if (expiresAt !== null) return Date.parse(expiresAt);
  return state === 'active' ? Number.POSITIVE_INFINITY : 0;
}

/** Whether the pair is refused at that moment; one whose expiry is no date is. */
export function isExpired(credential: StoredCredential, now: number): boolean {
  return !(now < expiryOf(credential));
}

/** Whether the consumer may do this. */
export function allows(consumer: Consumer, resource: string, action: string): boolean {
  for (const permission of consumer.permissions) {
    if (permission.resource === resource && (permission.actions as string[]).includes(action)) return true;
  }
  return false;
}

/** SHA-256 of a certificate's DER as people write it: hex in either case, with or without colons. */
export const fingerprintPattern = '^(?:[0-9A-Fa-f]{64}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31})$';

/** The fingerprints as they are stored and compared: each once. */
export function normaliseFingerprints(fingerprints: readonly string[]): string[] {
  return [...new Set(fingerprints.map(normaliseFingerprint))];
}

/** A fingerprint as it is stored and compared: lower-case hex without colons. */
export function normaliseFingerprint(text: string): string {
  return text.replaceAll(':', '').toLowerCase();
}
