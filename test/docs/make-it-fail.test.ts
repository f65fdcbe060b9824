import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { useGateway } from '../support/gateway.ts';
import { codeBlocks, readPage } from './pages.ts';

const page = readPage('docs/partners/make-it-fail.md');
const simulated = readPage('docs/test-keys.md');

const gateway = useGateway();

test('the commands for the simulated CRM run', async () => {
  const [block] = codeBlocks(simulated).filter(({ language }) => language === 'bash');
  assert.ok(block);
  const { stdout } = await promisify(execFile)('bash', ['-c', `set -euo pipefail\n${block.text}`], {
    env: { ...process.env, CRM: gateway.org.url },
  });
  assert.match(stdout, /"kind":"down"/);
});

test('the simulated CRM takes each fault of the page', async () => {
  const faults = [...simulated.matchAll(/`(\{.*"effect".*\})`/g)].map(([, body = '']) => body);
  assert.ok(faults.length >= 6);
  for (const body of faults) {
    const headers = { 'content-type': 'application/json' };
    const armed = await fetch(`${gateway.org.url}/simulator/faults`, { method: 'POST', headers, body });
    assert.ok(armed.ok, body);
    await fetch(`${gateway.org.url}/simulator/faults`, { method: 'DELETE' });
  }
});

test('what needs no special member fails as the page says', async () => {
  const rows = [...page.matchAll(/^\| (\d{3}) `(\w+)` \| (?!`-)/gm)].map(
    ([, status, code]) => `${status} ${code}`,
  );
  const body = {
    ...{ type: 'quote', trip_id: randomUUID(), member_id: gateway.org.memberId },
    result: { name: 'a', source: 'b', details: {} },
  };
  const key = { 'idempotency-key': randomUUID() };
  const post = (sent: object, headers = {}) => gateway.request('/api/v1/handoff', { body: sent, headers });
  const made = (await (await post(body, key)).json()) as { external_id: string };
  const quote = `/v1/quotes/${made.external_id}`;
  const old = { 'if-match': '"old"', 'idempotency-key': randomUUID() };
  const wrong = { ...gateway.console, apiSecret: gateway.console.apiSecret.replace(/.$/, '') };
  const narrow = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
  const answers = [
    await post({ ...body, colour: 'red' }),
    await gateway.request('/v1/quotes', { as: wrong }),
    await gateway.request('/api/v1/handoff', { as: narrow, body: { ...body, type: 'booking' } }),
    await gateway.request(`/v1/quotes/${randomUUID()}`),
    await gateway.request(quote, { method: 'PATCH', body: { name: 'c' }, headers: old }),
    await post({ ...body, trip_id: randomUUID() }, key),
    await post({ ...body, valid_until: '2020-01-01T00:00:00Z' }),
  ];
  for (const answer of answers) {
    const { status, code } = (await answer.json()) as { status: number; code: string };
    assert.ok(rows.includes(`${status} ${code}`), `${status} ${code} is not on the page`);
  }
});
