import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Certificate, type Certificates, createCertificates } from '../../support/certificates.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { createSecureClient } from '../../support/tls-client.ts';

let certificates: Certificates;
let authority: Certificate;
let client: Certificate;
let gateway: TestGateway;
before(async () => {
  certificates = await createCertificates();
  authority = await certificates.authority('authority');
  const server = await certificates.issue('server', authority);
  client = await certificates.issue('client', authority);
  gateway = await startGateway({
    ...{ TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: server.keyFile },
    ...{ TLS_CLIENT_CA_FILE: authority.certFile, TLS_CLIENT_AUTH: 'required' },
  });
});
after(async () => {
  await gateway.stop();
  await certificates.remove();
});

test('a tool is called with the certificate of the connection, and again over the same one', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'list_quotes' } };
  const secure = createSecureClient(gateway.url, authority, client);
  const ask = () => secure.ask('/mcp', { method: 'POST', as: gateway.console, body });
  const answers = [await ask(), await ask()];
  for (const answer of answers) {
    assert.equal(answer.status, 200, answer.body);
    assert.equal((JSON.parse(answer.body) as { result: { isError: boolean } }).result.isError, false);
  }
  assert.equal(answers[0]?.connection, answers[1]?.connection);
  secure.close();
  const without = createSecureClient(gateway.url, authority);
  assert.equal((await without.ask('/mcp', { method: 'POST', as: gateway.console, body })).status, 401);
  without.close();
});
