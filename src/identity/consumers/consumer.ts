import { type Static, Type } from 'typebox';
import { apiKeyPattern, consumerIdPattern } from './credentials.ts';
import { storedPublicKeySchema } from './public-keys.ts';

export const permissionResources = ['members', 'quotes', 'bookings', 'consumers', 'webhooks'] as const;
export const permissionActions = ['read', 'write', 'delete'] as const;
/** Which records of the resource a permission is for: every one, or those that the consumer itself made. */
export const recordScopes = ['all', 'own'] as const;
export const ownableResources: readonly string[] = ['quotes', 'bookings'];

export type PermissionResource = (typeof permissionResources)[number];
export type PermissionAction = (typeof permissionActions)[number];

export const permissionSchema = Type.Object({
  resource: Type.Enum(permissionResources),
  actions: Type.Array(Type.Enum(permissionActions), { minItems: 1 }),
  /** `all` where it is left out. */
  records: Type.Optional(Type.Enum(recordScopes)),
  approval: Type.Optional(Type.Boolean()),
  /** Limits each record to these fields and `id`; all where it is left out. */
  fields: Type.Optional(Type.Array(Type.String())),
});

const timestamp = Type.String({ format: 'date-time', maxLength: 40 });
const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const storedCredentialSchema = Type.Object({
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

export const allowancePeriods = ['day', 'month'] as const;
const allowanceSchema = Type.Object({
  requests: Type.Integer({ minimum: 1 }),
  per: Type.Enum(allowancePeriods),
});

/**
 * A consumer. Fields that this version does not know are kept: during an update, a newer version may have written them.
 */
export const consumerSchema = Type.Object({
  id: Type.String({ pattern: `^${consumerIdPattern}$` }),
  name: Type.String({ minLength: 1 }),
  permissions: Type.Array(permissionSchema),
  /** Permissions that only a newer version understands; they grant nothing here. */
  unknownPermissions: Type.Optional(Type.Array(Type.Unknown())),
  createdAt: timestamp,
  updatedAt: timestamp,
  rotatedAt: orNull(timestamp),
  /** SHA-256 of the DER of client certificates, lower-case hex. */
  certificateFingerprints: Type.Array(Type.String()),
  /** DNS names, URIs and e-mail addresses of client certificates, beside the fingerprints: see certificate-names.ts. */
  certificateNames: Type.Optional(Type.Array(Type.String())),
  credentials: Type.Array(storedCredentialSchema),
  /** True where it is left out. */
  enabled: Type.Optional(Type.Boolean()),
  /** When it was last enabled again: sessions of people from before have ended. */
  enabledAt: Type.Optional(timestamp),
  validUntil: Type.Optional(orNull(timestamp)),
  /** Null or left out: the limit of the settings. */
  rateLimitPerMinute: Type.Optional(orNull(Type.Integer({ minimum: 1 }))),
  /** Addresses and blocks that it may call from; none: any. */
  allowedAddresses: Type.Optional(Type.Array(Type.String())),
  /** With which it signs assertions: see public-keys.ts. */
  publicKeys: Type.Optional(Type.Array(storedPublicKeySchema)),
  /** Per cent of the CRM's calls that it gets at least while they are short; null or left out: none of its own. */
  crmShare: Type.Optional(orNull(Type.Integer({ minimum: 1, maximum: 100 }))),
  /** Requests that it has for a day or a month of UTC; null or left out: as many as it likes. */
  allowance: Type.Optional(orNull(allowanceSchema)),
  /** Claims of people who may act as it: see people.ts. An entry that was added later admits only sessions since then. */
  people: Type.Optional(
    Type.Array(
      Type.Object({ claim: Type.String(), value: Type.String(), addedAt: Type.Optional(timestamp) }),
    ),
  ),
  /** A test consumer that another one made has its maker, the maker of that one, and so on, up to the first of its family. */
  ancestors: Type.Optional(Type.Array(Type.String())),
  /** Changes of it that wait to be recorded in the database, oldest first: see record-changes.ts. */
  auditEvents: Type.Optional(Type.Array(Type.Unknown())),
  /** Until its last events are recorded, the record of a revoked consumer stays. */
  revokedAt: Type.Optional(timestamp),
  /** An optimistic-lock token: a change relies on it staying an administrator; see authority.ts. */
  administratorMark: Type.Optional(Type.String()),
  /** An optimistic-lock token: another one's share was raised with a view to this one's; see administration.ts. */
  shareMark: Type.Optional(Type.String()),
});

export type Permission = Static<typeof permissionSchema>;
export type StoredCredential = Static<typeof storedCredentialSchema>;
export type Consumer = Static<typeof consumerSchema>;
export type Allowance = Static<typeof allowanceSchema>;

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

/** When a change is made: later than the one before it, though the clock of another replica may be ahead. */
export function momentOfChange({ updatedAt }: Consumer, now: number): string {
  return new Date(Math.max(now, Date.parse(updatedAt) + 1)).toISOString();
}

/** Whether it is enabled and has not expired at this time, in milliseconds since 1970. */
export function isActive({ enabled = true, validUntil = null }: Consumer, now: number): boolean {
  return enabled && (validUntil === null || now < Date.parse(validUntil));
}

export const consumerStatuses = ['active', 'disabled', 'expired'] as const;
export type ConsumerStatus = (typeof consumerStatuses)[number];

export function statusOf(consumer: Consumer, now: number): ConsumerStatus {
  if (isActive(consumer, now)) return 'active';
  return consumer.enabled === false ? 'disabled' : 'expired';
}

export function recordsOf({ records = 'all' }: Permission): (typeof recordScopes)[number] {
  return records;
}

export function needsApproval({ permissions }: Pick<Consumer, 'permissions'>, resource: string): boolean {
  return permissions.some((permission) => permission.resource === resource && permission.approval === true);
}

export function allows(consumer: Consumer, resource: string, action: string): boolean {
  for (const permission of consumer.permissions) {
    if (permission.resource === resource && (permission.actions as string[]).includes(action)) return true;
  }
  return false;
}

/** SHA-256 of a certificate's DER as people write it: hex in upper or lower case, with or without colons. */
export const fingerprintPattern = '^(?:[0-9A-Fa-f]{64}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31})$';

export function normaliseFingerprints(fingerprints: readonly string[]): string[] {
  return [...new Set(fingerprints.map(normaliseFingerprint))];
}

/** A fingerprint as it is stored and compared: lower-case hex without colons. */
export function normaliseFingerprint(text: string): string {
  return text.replaceAll(':', '').toLowerCase();
}
