import { type Static, Type } from 'typebox';
import { defineRoute, type FormCheck, json, type Route } from '../../../api/route.ts';
import { type Caller, scopesOf } from '../../../identity/consumers/scopes.ts';
import type { AccessTokens } from '../access-tokens.ts';
import { assertionSeconds, assertionType } from '../client-authentication.ts';
import { answerOAuthError, OAuthError } from '../oauth-error.ts';
import { tokenSeconds } from '../signing-keys.ts';

export interface TokenServices {
  tokens: Pick<AccessTokens, 'issue'>;
  authenticateClient: FormCheck['authenticate'];
  publicUrl: () => string;
}

export const tokenPath = '/oauth/token';
const maxBodyBytes = 16_384;
const text = (description: string, example: string, maxLength = 255) =>
  Type.Optional(Type.String({ maxLength, description, examples: [example] }));

const form = Type.Object(
  {
    grant_type: text('`client_credentials`.', 'client_credentials'),
    scope: text(
      'Permissions such as `quotes:read`, separated by spaces; if left out, all that the consumer has.',
      'quotes:read quotes:write',
      2000,
    ),
    client_id: text(
      'The API key, with `client_secret`. The id of the consumer, or nothing, with `client_assertion`.',
      'hgk_o2tBsovC6m7gYpQd_EXAMPLEEXAMPLEEXAMPLE',
    ),
    client_secret: text('The API secret.', 'hgs_EXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAM'),
    client_assertion_type: text(`\`${assertionType}\`, with \`client_assertion\`.`, assertionType),
    client_assertion: text(
      'A JWT (RFC 7523) signed with a private key of the consumer. `iss` and `sub` are the id of the consumer, `aud` is ' +
        `the issuer alone, \`exp\` at most ${assertionSeconds} seconds ahead, \`jti\` new each time.`,
      'eyJhbGciOiJFUzI1NiJ9.e30.EXAMPLE',
      8192,
    ),
    resource: text('Address of the gateway, or of a part of it (RFC 8707).', 'https://handoff.example.com'),
  },
  // Unknown parameters are ignored (RFC 6749 section 3.2).
  { additionalProperties: true, title: 'TokenRequest' },
);

const token = Type.Object(
  {
    access_token: Type.String({
      maxLength: 2048,
      description: 'For the header Authorization, after `Bearer `. A JWT (RFC 9068).',
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.EXAMPLE'],
    }),
    token_type: Type.Enum(['Bearer']),
    expires_in: Type.Integer({
      minimum: 0,
      maximum: tokenSeconds,
      description: 'Seconds.',
      examples: [tokenSeconds],
    }),
    scope: Type.String({
      maxLength: 2000,
      description: 'Scopes of the token; it may have fewer than were asked for.',
      examples: ['quotes:read quotes:write'],
    }),
  },
  { title: 'Token' },
);

export const oauthError = Type.Object(
  {
    error: Type.String({ maxLength: 100, description: 'Code of RFC 6749.', examples: ['invalid_scope'] }),
    error_description: Type.String({
      maxLength: 1000,
      description: 'Explanation of the error, for people.',
      examples: ['The consumer has none of these scopes.'],
    }),
  },
  { title: 'OAuthError' },
);

/** Issues tokens (RFC 6749 section 4.4). */
export function tokenRoute({ tokens, authenticateClient, publicUrl }: TokenServices): Route {
  return defineRoute({
    method: 'POST',
    path: tokenPath,
    operationId: 'issueToken',
    tag: 'Tokens',
    summary: 'Get an access token',
    description:
      'Client credentials of OAuth 2.0. The client authenticates with its API key and API secret, as `client_secret_basic` or ' +
      '`client_secret_post`, or with `private_key_jwt`. Asking for more in `scope` than the consumer may do gives a token for what it may do.',
    permission: { none: 'the credentials are in the form, or in the header Authorization' },
    form: { authenticate: authenticateClient },
    answerProblem: answerOAuthError,
    maxBodyBytes,
    idempotencyKey: 'ignored',
    request: { body: form },
    requestExample: { grant_type: 'client_credentials', scope: 'quotes:read quotes:write' },
    answers: {
      200: { description: 'The token.', schema: token },
      400: { description: "The request isn't valid.", schema: oauthError },
      401: {
        description: "`invalid_client`: the client is unknown, or hasn't proved who it is.",
        schema: oauthError,
        example: { error: 'invalid_client', error_description: 'Send valid credentials.' },
      },
    },
    problems: ['store_unavailable', 'secrets_unavailable'],
    async handle({ body, consumer, credential }) {
      checkRequest(body, publicUrl());
      const caller = consumer as Caller;
      const scope = grantedScope(caller, body.scope);
      const access_token = await tokens.issue(caller.id, credential as string, scope);
      return json(200, { access_token, token_type: 'Bearer', expires_in: tokenSeconds, scope });
    },
  });
}

function checkRequest({ grant_type, resource }: Static<typeof form>, publicUrl: string): void {
  if (grant_type === undefined) throw new OAuthError('invalid_request', 'grant_type is missing.');
  if (grant_type !== 'client_credentials')
    throw new OAuthError('unsupported_grant_type', 'grant_type must be client_credentials.');
  const isOurs = resource === undefined || `${resource.replace(/\/$/, '')}/`.startsWith(`${publicUrl}/`);
  if (!isOurs || resource?.includes('#'))
    throw new OAuthError('invalid_target', `resource must be ${publicUrl}, or a part of it.`);
}

function grantedScope(consumer: Caller, asked: string | undefined): string {
  const own = scopesOf(consumer);
  const wanted = asked?.split(' ');
  const granted = wanted === undefined ? own : own.filter((scope) => wanted.includes(scope));
  if (granted.length === 0) throw new OAuthError('invalid_scope', 'The consumer has none of these scopes.');
  return granted.join(' ');
}
