import { type TSchema, Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { permissionActions, permissionResources } from '../../../identity/consumers/consumer.ts';
import { assertionAlgorithms } from '../../../identity/consumers/public-keys.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { answerOAuthError, OAuthError } from '../oauth-error.ts';
import type { SigningKeys } from '../signing-keys.ts';
import { oauthError, tokenPath } from './token.ts';

export interface MetadataServices {
  publicUrl: () => string;
  keys: Pick<SigningKeys, 'valid'>;
}

const resourceMetadataPath = '/.well-known/oauth-protected-resource';
/** Clients of it want metadata of their own: `resource` must be the very URL that they use (RFC 9728 section 3.3). */
const mcpPath = '/mcp';
const keysPath = '/oauth/jwks';
const authorizePath = '/oauth/authorize';
const common = {
  method: 'GET',
  tag: 'Tokens',
  idempotencyKey: 'ignored',
  permission: { none: 'nothing here is secret' },
} as const;

const url = (example: string) =>
  Type.String({ maxLength: 2048, examples: [`https://handoff.example.com${example}`] });
const list = (...examples: string[]) =>
  Type.Array(Type.String({ maxLength: 100 }), { maxItems: 100, examples: [examples] });
const scopes = permissionResources.flatMap((resource) =>
  permissionActions.map((action) => `${resource}:${action}`),
);

export function resourceMetadataOf(path: string | undefined): string {
  return path === mcpPath ? resourceMetadataPath + mcpPath : resourceMetadataPath;
}

export function metadataRoutes({ publicUrl, keys }: MetadataServices, all: () => readonly Route[]): Route[] {
  return [
    documentRoute({
      path: '/.well-known/oauth-authorization-server',
      operationId: 'getAuthorizationServer',
      summary: 'Read how tokens are issued',
      description: 'Metadata of the authorization server (RFC 8414).',
      schema: authorizationServer,
      read: () => authorizationServerOf(publicUrl()),
    }),
    documentRoute({
      path: resourceMetadataPath,
      operationId: 'getProtectedResource',
      summary: 'Read which tokens are accepted',
      description: 'Metadata of the protected resource (RFC 9728).',
      schema: protectedResource,
      read: () => protectedResourceOf(publicUrl(), ''),
    }),
    documentRoute({
      path: resourceMetadataPath + mcpPath,
      operationId: 'getProtectedMcp',
      summary: 'Read which tokens the tools accept',
      description: 'Metadata of the protected resource, for clients of the Model Context Protocol.',
      isUnlisted: true,
      schema: protectedResource,
      read() {
        if (all().some(({ path }) => path === mcpPath)) return protectedResourceOf(publicUrl(), mcpPath);
        throw new Problem('not_found', 'There are no tools here.');
      },
    }),
    documentRoute({
      path: keysPath,
      operationId: 'getTokenKeys',
      summary: 'Read the keys that sign tokens',
      description:
        'A JWK Set (RFC 7517). A key is published before the first token is signed with it, until the last of ' +
        'them has expired.',
      schema: keySet,
      read: () => ({ keys: keys.valid().map(({ jwk }) => jwk) }),
    }),
    authorizeRoute,
  ];
}

const authorizationServer = Type.Object(
  {
    issuer: url(''),
    authorization_endpoint: url(authorizePath),
    token_endpoint: url(tokenPath),
    jwks_uri: url(keysPath),
    scopes_supported: list('quotes:read'),
    response_types_supported: list(),
    grant_types_supported: list('client_credentials'),
    token_endpoint_auth_methods_supported: list(
      'client_secret_basic',
      'client_secret_post',
      'private_key_jwt',
    ),
    token_endpoint_auth_signing_alg_values_supported: list('ES256'),
    service_documentation: url('/v1/docs'),
  },
  { title: 'AuthorizationServer' },
);

/** Two fields are there for clients that stop without them, though no grant of ours needs them. */
function authorizationServerOf(issuer: string) {
  return {
    issuer,
    authorization_endpoint: issuer + authorizePath,
    token_endpoint: issuer + tokenPath,
    jwks_uri: issuer + keysPath,
    scopes_supported: scopes,
    response_types_supported: [],
    grant_types_supported: ['client_credentials'],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    token_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    service_documentation: `${issuer}/v1/docs`,
  };
}

const protectedResource = Type.Object(
  {
    resource: url(''),
    authorization_servers: Type.Array(url(''), { maxItems: 10 }),
    scopes_supported: list('quotes:read'),
    bearer_methods_supported: list('header'),
    resource_name: Type.String({ maxLength: 100, examples: ['Handoff Gateway'] }),
    resource_documentation: url('/v1/docs'),
  },
  { title: 'ProtectedResource' },
);

function protectedResourceOf(issuer: string, path: string) {
  return {
    resource: issuer + path,
    authorization_servers: [issuer],
    scopes_supported: scopes,
    bearer_methods_supported: ['header'],
    resource_name: 'Handoff Gateway',
    resource_documentation: `${issuer}/v1/docs`,
  };
}

const part = (example: string) => Type.String({ maxLength: 100, examples: [example] });
const keySet = Type.Object(
  {
    keys: Type.Array(
      Type.Object({
        kty: part('EC'),
        crv: part('P-256'),
        x: part('gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0'),
        y: part('SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps'),
        kid: part('NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs'),
        alg: part('ES256'),
        use: part('sig'),
      }),
      { maxItems: 100 },
    ),
  },
  { title: 'TokenKeys' },
);

interface Document {
  path: string;
  operationId: string;
  summary: string;
  description: string;
  isUnlisted?: true;
  schema: TSchema;
  read: () => object;
}

function documentRoute({ schema, read, ...own }: Document): Route {
  return defineRoute({
    ...common,
    ...own,
    request: {},
    answers: { 200: { description: 'The document.', schema } },
    problems: [],
    handle: async () => json(200, read()),
  });
}

/** There is nothing to authorize: it is named in the metadata, so it answers. */
const authorizeRoute = defineRoute({
  ...common,
  path: authorizePath,
  operationId: 'authorize',
  summary: 'Refuse to authorize',
  isUnlisted: true,
  answerProblem: answerOAuthError,
  request: { query: Type.Object({}, { additionalProperties: true }) },
  answers: { 400: { description: 'Always.', schema: oauthError } },
  problems: [],
  handle: async () => {
    const advice = `There are client credentials only: send them to ${tokenPath}.`;
    throw new OAuthError('unsupported_response_type', advice);
  },
});
