import { createHash } from 'node:crypto';

export interface AccessToken {
  accessToken: string;
  /** Origin of all data calls. */
  instanceUrl: string;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/** What a token is for; a token for another org, app or user must never be used. */
export interface Connection {
  loginUrl: string;
  audience: string;
  clientId: string;
  username: string;
}

/** A refresh is due, and the shared entry over, when less than this is left of a token. */
export const refreshMarginMs = 300_000;

/** Same hash, same org, app and user. */
export function hashConnection({ loginUrl, audience, clientId, username }: Connection): string {
  return createHash('sha256')
    .update(JSON.stringify([loginUrl, audience, clientId, username]))
    .digest('hex');
}

/** The record as it stands in the shared cache under `crm_token:{environment}`. */
export function formatToken(token: AccessToken, connectionHash: string): string {
  return JSON.stringify({
    access_token: token.accessToken,
    instance_url: token.instanceUrl,
    expires_at: new Date(token.expiresAt).toISOString(),
    connection_hash: connectionHash,
  });
}

/** The token of such a record, or undefined where it is no record or one of another connection. */
export function parseToken(record: string | undefined, connectionHash: string): AccessToken | undefined {
  const members = parseObject(record);
  if (members === undefined || members['connection_hash'] !== connectionHash) return undefined;
  const accessToken = members['access_token'];
  const instanceUrl = members['instance_url'];
  const expiresAt = Date.parse(String(members['expires_at']));
  if (!isBearerToken(accessToken) || typeof instanceUrl !== 'string' || Number.isNaN(expiresAt))
    return undefined;
  return { accessToken, instanceUrl, expiresAt };
}

/** The JSON object of a text, or undefined: what others write is not to be trusted. */
export function parseObject(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether it can stand in a header: anything else would break, or split, the request. */
export function isBearerToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value);
}
