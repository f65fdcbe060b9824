import { createHash } from 'node:crypto';
import { isObject } from '../../platform/base/json-text.ts';
import { readMoment } from '../../platform/base/moment.ts';
import { isLoopback } from '../../platform/base/networks.ts';

export interface AccessToken {
  accessToken: string;
  instanceUrl: string;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

export interface Connection {
  loginUrl: string;
  audience: string;
  clientId: string;
  username: string;
}

export const refreshMarginMs = 300_000;

export function hashConnection({ loginUrl, audience, clientId, username }: Connection): string {
  return createHash('sha256')
    .update(JSON.stringify([loginUrl, audience, clientId, username]))
    .digest('hex');
}

export function formatToken(token: AccessToken, connectionHash: string): string {
  return JSON.stringify({
    access_token: token.accessToken,
    instance_url: token.instanceUrl,
    expires_at: new Date(token.expiresAt).toISOString(),
    connection_hash: connectionHash,
  });
}

/**
 * The token of such a record, or undefined where it is no record, or one of another connection, or holds what no token
 * endpoint may issue.
 */
export function parseToken(record: string | undefined, connectionHash: string): AccessToken | undefined {
  if (record === undefined || record.length > longestRecord) return undefined;
  const members = parseObject(record);
  if (members === undefined || members['connection_hash'] !== connectionHash) return undefined;
  const accessToken = members['access_token'];
  const instanceUrl = readInstanceUrl(members['instance_url']);
  const expires = members['expires_at'];
  const expiresAt = typeof expires === 'string' ? readMoment(expires) : undefined;
  if (!isBearerToken(accessToken) || instanceUrl === undefined || expiresAt === undefined) return undefined;
  return { accessToken, instanceUrl, expiresAt };
}

/** Characters of a record at most: one with the longest token has fewer. */
const longestRecord = 32_768;

/**
 * The origin that the token goes to, no matter who names it: over TLS, except to a simulator on this machine. Undefined for
 * anything else, and for a URL that has more than an origin.
 */
export function readInstanceUrl(value: unknown): string | undefined {
  const url = typeof value === 'string' ? URL.parse(value) : null;
  if (url === null || url.href !== `${url.origin}/`) return undefined;
  const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url));
  return isSafe ? url.origin : undefined;
}

/** The JSON object of a text, or undefined: what others write is not to be trusted. */
export function parseObject(text: string | undefined): Record<string, unknown> | undefined {
  const value = parse(text);
  return isObject(value) ? value : undefined;
}

/** The JSON array of a text; undefined for any other text. */
export function parseArray(text: string): unknown[] | undefined {
  const value = parse(text);
  return Array.isArray(value) ? value : undefined;
}

function parse(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether it can stand in a header: anything else would break, or split, the request. */
export function isBearerToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value);
}
