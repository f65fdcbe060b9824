import { type TSchema, Type } from 'typebox';
import {
  maxCertificateNameLength,
  maxCertificateNames,
} from '../../../identity/consumers/certificate-names.ts';
import {
  allowancePeriods,
  fingerprintPattern,
  permissionActions,
  permissionResources,
  recordScopes,
} from '../../../identity/consumers/consumer.ts';
import {
  maxAllowance,
  maxAllowedAddresses,
  maxRateLimitPerMinute,
} from '../../../identity/consumers/consumer-change.ts';
import { credentialStates, expiredListedDays } from '../../../identity/consumers/consumer-view.ts';
import { maxClaimName, maxClaimValue, maxPeople } from '../../../identity/consumers/people.ts';
import { maxConsumerNameLength } from '../../../identity/consumers/permissions.ts';
import { maxPublicKeys, publicKeyTypes } from '../../../identity/consumers/public-keys.ts';
import { maxGraceWindowHours } from '../../../identity/consumers/rotation.ts';
import { modes } from '../../../platform/base/call.ts';

const exampleId = 'con_o2tBsovC6m7gYpQd';
export const exampleKey = 'hgk_o2tBsovC6m7gYpQd_EXAMPLEEXAMPLEEXAMPLE';
const exampleSecret = 'hgs_EXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAM';
const exampleFingerprint = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';

export const orNull = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description });
export const moment = (example: string) =>
  Type.String({ format: 'date-time', maxLength: 40, examples: [example] });
export const since = (description: string) =>
  Type.Optional(Type.String({ ...moment('2027-03-01T08:00:00.000Z'), description }));

export const id = Type.String({
  maxLength: 200,
  format: 'text',
  description: 'Id of the consumer.',
  examples: [exampleId],
});
export const idParams = Type.Object({ id }, { additionalProperties: false });
const apiKey = Type.String({ maxLength: 64, examples: [exampleKey] });
const apiSecret = Type.String({
  maxLength: 64,
  description: 'The API secret. Only this response shows it.',
  examples: [exampleSecret],
});
const rotatedAt = moment('2027-03-01T08:00:00.000Z');
const expiresAt = moment('2027-03-02T08:00:00.000Z');
const createdAt = moment('2027-01-15T09:30:00.000Z');

const records = Type.Enum(recordScopes, {
  description:
    '`own`: only records that this consumer created; for quotes and bookings only. Reservations follow bookings.',
  examples: ['all'],
});

const approval = Type.Boolean({
  description:
    "True: what the consumer hands off as this resource waits until another consumer approves it, and it can't write it " +
    'in any other way; for quotes and bookings only.',
  examples: [false],
});

const fields = Type.Array(Type.String({ maxLength: 100, format: 'visible' }), {
  maxItems: 100,
  description:
    "Only these fields, as named in responses, and `id`; for the consumer, others don't exist. For members, quotes and " +
    'bookings only; absent: all.',
  examples: [['name', 'status']],
});

const permissions = Type.Array(
  Type.Object(
    {
      resource: Type.Enum(permissionResources, { examples: ['quotes'] }),
      actions: Type.Array(Type.Enum(permissionActions), {
        minItems: 1,
        maxItems: 20,
        examples: [['read', 'write']],
      }),
      records: Type.Optional(records),
      approval: Type.Optional(approval),
      fields: Type.Optional(fields),
    },
    { additionalProperties: false },
  ),
  { minItems: 1, maxItems: 20, description: 'Permissions of the consumer; each resource once.' },
);

const enabledText = 'False: its credentials are refused, until it is true again.';
const validUntilText = 'When its credentials stop working; null: never.';
const rateLimitText = 'Requests within 60 seconds; null: the limit of the settings.';
const addressesText =
  'IPv4 and IPv6 addresses and blocks it may call from; none: any. From elsewhere it gets 403 ' +
  '`address_not_allowed`.';

const keyPart = (example?: string, maxLength = 100) =>
  Type.Optional(
    Type.String({ minLength: 1, maxLength, format: 'visible', ...(example && { examples: [example] }) }),
  );
const publicKeyFields = {
  kty: Type.Enum(publicKeyTypes, { description: 'Kind of key.', examples: ['EC'] }),
  crv: keyPart('P-256'),
  x: keyPart('gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0'),
  y: keyPart('SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps'),
  n: keyPart(undefined, 2000),
  e: keyPart(undefined, 16),
  kid: keyPart('2027-03'),
  alg: keyPart('ES256'),
  use: keyPart('sig'),
};
const publicKeysText = `Public keys of the private keys with which it may sign assertions, at most ${maxPublicKeys}: RSA, EC on P-256 or Ed25519, as JWK (RFC 7517). None: it authenticates with its pairs only.`;
const crmShareText =
  'Percentage of CRM calls it is guaranteed while they are short; null: no share of its own. ' +
  'At most 100 for all consumers together.';

const certificateNamesText =
  'DNS names, URIs and e-mail addresses of client certificates, as their subject alternative names have them and without ' +
  'wildcards; the consumer must present a certificate with one of them, or one of `certificateFingerprints`. So a renewed ' +
  'certificate needs no change.';
const allowanceFields = {
  requests: Type.Integer({
    minimum: 1,
    maximum: maxAllowance,
    description: 'Requests per period.',
    examples: [10_000],
  }),
  per: Type.Enum(allowancePeriods, { description: 'In UTC.', examples: ['day'] }),
};
const allowanceText = 'Requests the consumer may send per day or month; null: unlimited.';

const people = Type.Array(
  Type.Object(
    {
      claim: Type.String({ minLength: 1, maxLength: maxClaimName, format: 'visible', examples: ['groups'] }),
      value: Type.String({
        minLength: 1,
        maxLength: maxClaimValue,
        format: 'visible',
        examples: ['travel-desk'],
      }),
    },
    { additionalProperties: false },
  ),
  {
    maxItems: maxPeople,
    description:
      'People who sign in to the console and may act as this consumer: those whose ID token has a claim with this value, or ' +
      'with it among its values. None: nobody.',
    examples: [[{ claim: 'groups', value: 'travel-desk' }]],
  },
);

export const requested = {
  name: Type.String({
    minLength: 1,
    maxLength: maxConsumerNameLength,
    format: 'visible',
    description: 'Name of the consumer, for people.',
    examples: ['Partner A'],
  }),
  permissions,
  certificateFingerprints: Type.Array(Type.String({ pattern: fingerprintPattern, maxLength: 95 }), {
    maxItems: 20,
    description:
      'SHA-256 of the DER of client certificates in hex, either case, with or without colons; the consumer must ' +
      'present one of them. None: no certificate is needed.',
    examples: [[exampleFingerprint]],
  }),
  enabled: Type.Boolean({ description: enabledText, examples: [true] }),
  validUntil: orNull(moment('2030-12-31T23:59:59.000Z'), validUntilText),
  rateLimitPerMinute: orNull(
    Type.Integer({ minimum: 1, maximum: maxRateLimitPerMinute, examples: [600] }),
    rateLimitText,
  ),
  allowedAddresses: Type.Array(Type.String({ maxLength: 50, format: 'visible' }), {
    maxItems: maxAllowedAddresses,
    description: addressesText,
    examples: [['192.0.2.10', '2001:db8::/32']],
  }),
  publicKeys: Type.Array(
    Type.Object(
      // Members that a browser or Node.js adds; they are not stored.
      {
        ...publicKeyFields,
        key_ops: Type.Optional(Type.Array(Type.String({ maxLength: 20 }), { maxItems: 8 })),
        ext: Type.Optional(Type.Boolean()),
      },
      { additionalProperties: false },
    ),
    { maxItems: maxPublicKeys, description: publicKeysText },
  ),
  crmShare: orNull(Type.Integer({ minimum: 1, maximum: 100, examples: [25] }), crmShareText),
  certificateNames: Type.Array(
    Type.String({ minLength: 1, maxLength: maxCertificateNameLength, format: 'visible' }),
    {
      maxItems: maxCertificateNames,
      description: certificateNamesText,
      examples: [['orders.partner.example']],
    },
  ),
  allowance: orNull(Type.Object(allowanceFields, { additionalProperties: false }), allowanceText),
  people,
};

export const mode = Type.Enum(modes, {
  description:
    "`test`: its requests work on records of its own in the gateway and never reach the CRM or the partner. It can't be changed later.",
  examples: ['live'],
});

const lastUsedAt = orNull(
  moment('2027-03-01T08:00:00.000Z'),
  'When its credentials were last used, on any replica, to the minute; null: never.',
);

const consumerProperties = {
  id,
  name: Type.String({ maxLength: 400, description: 'Name of the consumer.', examples: ['Partner A'] }),
  mode,
  apiKey: orNull(apiKey, 'The active API key; null where every pair was rotated out.'),
  permissions: Type.Array(
    Type.Object({
      resource: Type.Enum(permissionResources, { examples: ['quotes'] }),
      actions: Type.Array(Type.Enum(permissionActions), { maxItems: 20, examples: [['read', 'write']] }),
      records,
      approval: Type.Optional(approval),
      fields: Type.Optional(fields),
    }),
    { maxItems: 20, description: 'Permissions of the consumer.' },
  ),
  createdAt,
  updatedAt: moment('2027-03-01T08:00:00.000Z'),
  rotatedAt: orNull(rotatedAt, 'When its credentials were last rotated.'),
  expiresAt: orNull(expiresAt, 'Expiry of the pair that `apiKey` names; null while it is active.'),
  certificateFingerprints: Type.Array(Type.String({ maxLength: 95 }), {
    maxItems: 20,
    description: 'SHA-256 of client certificates in lower-case hex.',
    examples: [[exampleFingerprint]],
  }),
  enabled: requested.enabled,
  validUntil: requested.validUntil,
  rateLimitPerMinute: requested.rateLimitPerMinute,
  allowedAddresses: requested.allowedAddresses,
  publicKeys: Type.Array(Type.Object(publicKeyFields), { maxItems: 100, description: publicKeysText }),
  crmShare: requested.crmShare,
  certificateNames: Type.Array(Type.String({ maxLength: 400 }), {
    maxItems: maxCertificateNames,
    description: certificateNamesText,
    examples: [['orders.partner.example']],
  }),
  allowance: orNull(Type.Object(allowanceFields), allowanceText),
  people,
  lastUsedAt,
  credentials: Type.Array(
    Type.Object({
      apiKey,
      state: Type.Enum(credentialStates, {
        description: '`rotated` is valid until `expiresAt`, `expired` is refused.',
        examples: ['active'],
      }),
      createdAt,
      expiresAt: orNull(expiresAt, 'When the pair stops working; null while it is active.'),
      lastUsedAt,
    }),
    {
      maxItems: 200,
      description: `Every valid pair, and those that expired in the last ${expiredListedDays} days.`,
    },
  ),
};

export const consumerSchema = Type.Object(consumerProperties, {
  title: 'Consumer',
  description: 'A consumer of the API. Nothing here is secret.',
});

export const usedAllowance = Type.Object(
  {
    ...allowanceFields,
    used: Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Requests since it began, on all replicas; it may lag by some seconds.',
      examples: [8000],
    }),
    resets_at: Type.String({ ...moment('2027-03-02T00:00:00.000Z'), description: 'When it resets.' }),
  },
  { description: allowanceText },
);

const propertiesWithUse = { ...consumerProperties, allowance: orNull(usedAllowance, allowanceText) };

export const ownConsumerSchema = Type.Object(propertiesWithUse, {
  title: 'OwnConsumer',
  description: 'The calling consumer. Nothing here is secret.',
});

export const consumerWithUseSchema = Type.Object(propertiesWithUse, {
  title: 'ConsumerWithUse',
  description: 'A consumer, with how much of its allowance is used. Nothing here is secret.',
});

export const createdConsumerSchema = Type.Object(
  { ...consumerProperties, apiKey, apiSecret },
  { title: 'CreatedConsumer', description: 'A consumer with its first pair.' },
);

const graceWindow = Type.Optional(
  Type.Number({
    minimum: 0,
    maximum: maxGraceWindowHours,
    description: 'How long currently valid pairs stay valid, fractions allowed; 0 ends them at once.',
    examples: [24],
  }),
);

export const rotationBody = Type.Object({ graceWindowHours: graceWindow }, { additionalProperties: false });
export const ownRotationBody = Type.Object(
  { grace_window_hours: graceWindow },
  { additionalProperties: false },
);

export const rotation = Type.Object(
  {
    id,
    apiKey,
    apiSecret,
    rotatedAt,
    previous: orNull(
      Type.Object({ apiKey, expiresAt }, { description: 'The pair that was active before.' }),
      'The pair that was active before; null where there was none.',
    ),
  },
  { title: 'Rotation', description: 'The new pair, and until when the old one is valid.' },
);
