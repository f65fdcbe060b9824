import type { IncomingHttpHeaders } from 'node:http';
import { json, type RouteAnswer } from '../../api/route.ts';
import { Problem } from '../../platform/base/problem.ts';

type OAuthCode =
  | 'invalid_request'
  | 'unsupported_grant_type'
  | 'invalid_scope'
  | 'invalid_target'
  | 'unsupported_response_type';

export class OAuthError extends Problem {
  readonly error: OAuthCode;

  constructor(error: OAuthCode, message: string) {
    super('invalid_request', message);
    this.error = error;
  }
}

/** OAuth answers 401 to these, whatever the status is elsewhere. */
const ofClient = new Set([401, 403]);

/**
 * Answers as RFC 6749 section 5.2 says. Other statuses than 400 and 401 are answered as everywhere: OAuth knows no others.
 * The challenge is there where that header was used: clients that find one look no further.
 */
export function answerOAuthError(
  problem: Problem,
  { authorization }: IncomingHttpHeaders,
): RouteAnswer | undefined {
  const { status, message, code } = problem;
  // A browser's session, which OAuth knows nothing of.
  if (code === 'permission_denied') return undefined;
  if (ofClient.has(status)) {
    const challenge =
      authorization === undefined ? {} : { 'www-authenticate': 'Basic realm="handoff-gateway"' };
    return json(401, { error: 'invalid_client', error_description: ascii(message) }, challenge);
  }
  if (status !== 400) return undefined;
  const error = problem instanceof OAuthError ? problem.error : 'invalid_request';
  return json(400, { error, error_description: ascii(message) });
}

function ascii(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]|["\\]/g, "'");
}
