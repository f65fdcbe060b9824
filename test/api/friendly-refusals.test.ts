import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { useGateway } from '../support/gateway.ts';

interface ProblemBody {
  code: string;
  detail: string;
  errors?: object[];
}

describe('a refusal says what to do', () => {
  const gateway = useGateway();

  const problem = async (response: Response) => (await response.json()) as ProblemBody;

  const meant: [asked: string, meant: string][] = [
    ['/api/v1/quotes', '/v1/quotes'],
    ['/v1/handoff', '/api/v1/handoff'],
    ['/v1/quote?limit=1', '/v1/quotes'],
    ['/v1/Quotes/', '/v1/quotes'],
    ['/v1/quotes/', '/v1/quotes'],
    ['/quotes', '/v1/quotes'],
    ['/handoff', '/api/v1/handoff'],
    ['/v1/quote/0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f', '/v1/quotes/{id}'],
    ['/v1/health', '/v1/healthz'],
  ];
  for (const [asked, path] of meant) {
    test(`${asked} is not there: ${path} is named, and the documentation`, async () => {
      const { code, detail } = await problem(await gateway.request(asked));
      assert.equal(code, 'not_found');
      assert.ok(detail.includes(` Did you mean ${path}? `), detail);
      assert.ok(detail.includes('/v1/docs'), detail);
    });
  }

  for (const asked of ['/wp-admin/setup.php', '/nope', '/v1', '/v1/x', `/v1/${'quotes'.repeat(100)}`]) {
    test(`${asked.slice(0, 20)} is like no other path`, async () => {
      const { detail } = await problem(await gateway.request(asked));
      assert.equal(detail, "There's nothing at this path. /v1/docs describes every path.");
    });
  }

  test('a field that can only be read is called so', async () => {
    const body = { trip_id: randomUUID(), status: 'created', colour: 'red', details: {} };
    const headers = { 'idempotency-key': randomUUID() };
    const { errors } = await problem(await gateway.request('/v1/quotes', { method: 'POST', body, headers }));
    assert.partialDeepStrictEqual(
      errors?.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
      [
        { pointer: '#/colour', message: "isn't known; leave it out" },
        { pointer: '#/member_id', message: 'is missing' },
        { pointer: '#/name', message: 'is missing' },
        { pointer: '#/source', message: 'is missing' },
        { pointer: '#/status', message: 'is read only; leave it out' },
      ],
    );
  });
});
