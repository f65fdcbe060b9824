import { randomBytes } from '../../platform/base/chance.ts';

export const attemptResults = [
  'accepted',
  'missing',
  'unknown_key',
  'wrong_secret',
  'expired',
  'revoked',
  'disabled',
  'certificate',
  'address',
  'permission_denied',
] as const;

export type AttemptResult = (typeof attemptResults)[number];

/** One attempt, accepted or not; never holds a secret. */
export interface Attempt {
  /** Null only when the key is unknown. */
  consumer_id: string | null;
  /** Method and route pattern, e.g. `GET /v1/quotes/:id`. */
  endpoint: string;
  result: AttemptResult;
  /** RFC 3339 UTC with milliseconds. */
  timestamp: string;
  request_id: string;
  /** The caller's; null in a sum of many addresses. */
  address: string | null;
  /** At most 255 characters; null where none was sent. */
  user_agent: string | null;
  /** The public half of what was presented; null where none was. */
  api_key: string | null;
  /** Who has signed in and sent it; null where it came with credentials of the consumer. */
  person: string | null;
  status: number;
  sum?: AttemptSum | undefined;
}

export interface AttemptSum {
  by: 'network' | 'consumer' | 'alike';
  /** An address, of IPv6 the first 64 bits; the consumer's id; a hash of what they have in common. */
  name: string;
}

/** Where attempts go. Recording never fails and never waits: a request does not depend on it. */
export interface AttemptRecorder {
  record(attempt: Attempt): void;
}

const counterSize = 4096;

/**
 * Makes ids for attempts: UUIDs of version 7 (RFC 9562 section 5.7), whose order is that of time. A
 * counter follows the milliseconds, and then random bits of this process.
 */
export function createAttemptIds(): (timestamp: string) => string {
  const node = randomBytes(8);
  // The two bits of the variant.
  node.writeUInt8((node.readUInt8(0) & 0x3f) | 0x80, 0);
  const tail = `${node.toString('hex', 0, 2)}-${node.toString('hex', 2)}`;
  let counter = 0;
  let moment = '';
  let head = '';
  return (timestamp) => {
    counter = (counter + 1) % counterSize;
    if (timestamp !== moment) {
      moment = timestamp;
      head = headOf(Date.parse(timestamp));
    }
    return `${head}-7${counter.toString(16).padStart(3, '0')}-${tail}`;
  };
}

/** An id that is not after any of this moment, and after all of earlier ones; milliseconds since 1970. */
export function firstAttemptIdOf(ms: number): string {
  return `${headOf(Math.max(0, ms))}-0000-0000-000000000000`;
}

function headOf(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}
