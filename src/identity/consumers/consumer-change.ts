import { momentRule, readMoment } from '../../platform/base/moment.ts';
import { isAddressOrNetwork } from '../../platform/base/networks.ts';
import { Problem } from '../../platform/base/problem.ts';
import { certificateNameRule, readCertificateName } from './certificate-names.ts';
import { type Allowance, type Consumer, normaliseFingerprints } from './consumer.ts';
import { checkPeople, type PersonClaim } from './people.ts';
import {
  checkConsumerName,
  checkPermissions,
  type FieldNames,
  type RequestedPermission,
} from './permissions.ts';
import { checkPublicKeys, type PublicKey } from './public-keys.ts';

/** Entries in `allowedAddresses` at most. */
export const maxAllowedAddresses = 100;
/** Far above what one consumer can send, and exact in every number. */
export const maxRateLimitPerMinute = 1_000_000_000;
/** Requests of an allowance at most, exact in every number. */
export const maxAllowance = 1_000_000_000_000;

/** Each field replaces the whole value; one that is left out stays as it is. */
export interface ConsumerChange {
  name?: string;
  permissions?: readonly RequestedPermission[];
  /** SHA-256 of client certificates, of which the consumer must present one; none: no certificate is needed. */
  certificateFingerprints?: readonly string[];
  enabled?: boolean;
  /** From then on every pair is refused; null: never. */
  validUntil?: string | null;
  /** Null: the limit of the settings. */
  rateLimitPerMinute?: number | null;
  /** Addresses and blocks that it may call from; none: any. */
  allowedAddresses?: readonly string[];
  /** With which it signs assertions; none: it authenticates with its pairs only. */
  publicKeys?: readonly PublicKey[];
  /** Per cent of the CRM's calls that it gets at least while they are short. */
  crmShare?: number | null;
  /** Names of client certificates, of which it must present one, or one of the fingerprints. */
  certificateNames?: readonly string[];
  allowance?: Allowance | null;
  /** Claims of people who may act as it; none: nobody may. */
  people?: readonly PersonClaim[];
}

/** Throws `Problem` invalid_request. */
export function checkChange(change: ConsumerChange, fieldNames: FieldNames): Partial<Consumer> {
  const { name, permissions, certificateFingerprints, validUntil, allowedAddresses } = change;
  return {
    ...(name !== undefined && { name: checkConsumerName(name) }),
    ...(permissions && { permissions: checkPermissions(permissions, fieldNames) }),
    ...(certificateFingerprints && {
      certificateFingerprints: normaliseFingerprints(certificateFingerprints),
    }),
    ...(change.certificateNames && { certificateNames: checkCertificateNames(change.certificateNames) }),
    ...(validUntil !== undefined && { validUntil: validUntil && checkMoment(validUntil) }),
    ...(allowedAddresses && { allowedAddresses: checkAddresses(allowedAddresses) }),
    ...(change.publicKeys && { publicKeys: checkPublicKeys(change.publicKeys) }),
    ...(change.people && { people: checkPeople(change.people) }),
    ...unchecked(change),
  };
}

function unchecked({ enabled, rateLimitPerMinute, crmShare, allowance }: ConsumerChange): Partial<Consumer> {
  return {
    ...(enabled !== undefined && { enabled }),
    ...(rateLimitPerMinute !== undefined && { rateLimitPerMinute }),
    ...(crmShare !== undefined && { crmShare }),
    ...(allowance !== undefined && { allowance }),
  };
}

/** In UTC. */
function checkMoment(text: string): string {
  const ms = readMoment(text);
  if (ms !== undefined) return new Date(ms).toISOString();
  throw notValid('validUntil', [{ pointer: '#/validUntil', message: momentRule }]);
}

function checkAddresses(addresses: readonly string[]): string[] {
  const message = 'must be an IPv4 or IPv6 address, or a block of them such as 192.0.2.0/24';
  const faults = addresses.flatMap((text, i) =>
    isAddressOrNetwork(text) ? [] : [{ pointer: `#/allowedAddresses/${i}`, message }],
  );
  if (faults.length > 0) throw notValid('allowedAddresses', faults);
  return [...new Set(addresses)];
}

function checkCertificateNames(names: readonly string[]): string[] {
  const read = names.map(readCertificateName);
  const faults = read.flatMap((name, i) =>
    name === undefined ? [{ pointer: `#/certificateNames/${i}`, message: certificateNameRule }] : [],
  );
  if (faults.length > 0) throw notValid('certificateNames', faults);
  return [...new Set(read as string[])];
}

function notValid(field: string, errors: { pointer: string; message: string }[]): Problem {
  return new Problem('invalid_request', `The consumer isn't valid: ${field} ${errors[0]?.message}.`, {
    errors,
  });
}
