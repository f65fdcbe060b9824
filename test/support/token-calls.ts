import assert from 'node:assert/strict';
import type { JWTPayload } from 'jose';
import type { OAuth2Error } from 'oauth4webapi';
import { type Algorithm, assertionOf, makeKeys, type Partner } from './assertions.ts';
import type { Credentials, TestGateway } from './gateway.ts';

export const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** Requests of partners and of the administrator, at this gateway unless another is named. */
export function tokenCalls(here: TestGateway, issuer: string) {
  const ask = (fields: Record<string, string>, headers = {}, gateway = here) =>
    fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      headers,
      body: new URLSearchParams({ grant_type: 'client_credentials', ...fields }),
    });
  const withPair = ({ apiKey, apiSecret }: Credentials) => ({ client_id: apiKey, client_secret: apiSecret });
  const tokenFor = async (fields: Record<string, string>): Promise<string> => {
    const response = await ask(fields);
    const body = (await response.json()) as { access_token: string };
    assert.equal(response.status, 200, JSON.stringify(body));
    return body.access_token;
  };
  const assertError = async (response: Response, status: number, error: string) => {
    const text = await response.text();
    assert.equal(response.status, status, text);
    assert.equal((JSON.parse(text) as OAuth2Error).error, error, text);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    return JSON.parse(text) as { error_description: string };
  };
  const call = (
    path: string,
    token: string,
    { gateway = here, ...init }: RequestInit & { gateway?: TestGateway } = {},
  ) => fetch(gateway.url + path, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });
  const administer = async (method: string, path: string, body?: object) => {
    const response = await here.request(`/v1/admin/consumers${path}`, {
      method,
      as: here.admin,
      ...(body && { body }),
    });
    const text = await response.text();
    assert.ok(response.ok, text);
    return (text ? JSON.parse(text) : {}) as Credentials & Record<string, unknown>;
  };
  const readQuotes = { resource: 'quotes', actions: ['read', 'write'] };
  const newConsumer = (more: object = {}) =>
    administer('POST', '', { name: 'Partner', permissions: [readQuotes], ...more });
  const newPartner = async (alg: Algorithm = 'ES256', more: object = {}): Promise<Partner & Credentials> => {
    const { jwk, privateKey } = makeKeys(alg);
    return { ...(await newConsumer({ publicKeys: [{ ...jwk, kid: 'first' }], ...more })), privateKey, alg };
  };
  const askWithAssertion = async (partner: Partner, claims: JWTPayload = {}, header = {}, gateway = here) =>
    ask(
      {
        client_assertion_type: assertionType,
        client_assertion: await assertionOf(partner, issuer, claims, header),
      },
      {},
      gateway,
    );

  return {
    ask,
    withPair,
    tokenFor,
    assertError,
    call,
    administer,
    newConsumer,
    newPartner,
    askWithAssertion,
  };
}
