import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { problemCodes } from '../../src/api/openapi/problem-responses.ts';
import { defineRoute } from '../../src/api/route.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { type ProblemCode, problems } from '../../src/platform/base/problem.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { type PostgresDatabase, usePostgres } from '../support/postgres.ts';
import { assertProblem } from '../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { assertFitsDocument } from './document-check.ts';
import { crmTimeoutMs, type Harness, requestsPerMinute, scenarios } from './error-scenarios.ts';
import { openRoute, startMadeUpServer } from './made-up-server.ts';

const docs = join(import.meta.dirname, '../../docs');
const codes = Object.keys(problems) as ProblemCode[];

describe('the codes of errors', () => {
  test('are the same in the table, the document and the page', () => {
    const { components } = JSON.parse(readFileSync(join(docs, 'openapi.json'), 'utf8')) as {
      components: { schemas: { Problem: { properties: { code: { 'x-extensible-enum': string[] } } } } };
    };
    assert.deepEqual(components.schemas.Problem.properties.code['x-extensible-enum'], codes);
    const page = readFileSync(join(docs, 'errors.md'), 'utf8');
    const rows = [...page.matchAll(/^- (\d{3}): (`[a-z_`, ]+)$/gm)].flatMap(([, status, names = '']) =>
      [...names.matchAll(/`([a-z_]+)`/g)].map(([, code]) => [code, Number(status)]),
    );
    const [, reserved = ''] = page.split('## Reserved codes');
    const kept = [...reserved.matchAll(/`([a-z_]+)`/g)].map(([, code = '']) => code);
    assert.deepEqual([...rows.map(([code]) => code), ...kept].sort(), codes.toSorted());
    for (const [code, status] of rows)
      assert.equal(status, problems[code as ProblemCode].status, String(code));
  });

  test('have a title of their own each', () => {
    assert.equal(new Set(codes.map((code) => problems[code].title)).size, codes.length);
  });

  test('that nothing leads to stand in no operation', () => {
    const documented = new Set(documentedRoutes().flatMap(problemCodes));
    for (const code of codes) {
      if (code === 'internal_error') continue;
      assert.equal(documented.has(code), typeof scenarios[code] === 'function', code);
    }
  });

  test('internal_error hides what went wrong, and the log has it', async () => {
    const server = await startMadeUpServer(
      defineRoute({
        ...openRoute,
        path: '/v1/made-up',
        operationId: 'getMadeUp',
        handle: () => Promise.reject(new Error('the password is hunter2')),
      }),
    );
    const response = await fetch(`${server.url}/v1/made-up`);
    const problem = await assertProblem(response, 500, 'internal_error');
    assert.doesNotMatch(JSON.stringify(problem), /hunter2|stack|\.ts/);
    assert.match(JSON.stringify(server.logLines), /hunter2/);
    await server.stop();
  });
});

const postgres = await usePostgres();

describe('every code that can be reached is answered as documented', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let gateway: TestGateway;
  let database: TcpProxy;
  let harness: Harness;

  before(async () => {
    database = await startTcpProxy((postgres as PostgresDatabase).url);
    gateway = await startGateway({
      DATABASE_URL: database.url,
      CRM_TIMEOUT_MS: String(crmTimeoutMs),
      RATE_LIMIT_PER_MINUTE: String(requestsPerMinute),
      CHANGES_POLL_SECONDS: '3600',
    });
    const request: Harness['request'] = async (path, options = {}) => {
      const response = await gateway.request(path, options);
      await assertFitsDocument(path, options, response);
      return response;
    };
    const sql: Harness['sql'] = async (statement) => {
      const client = new Client((postgres as PostgresDatabase).url);
      await client.connect();
      await client.query(statement);
      await client.end();
    };
    harness = { gateway, database, request, sql };
  });
  after(async () => {
    await gateway.stop();
    await database.close();
  });

  for (const [code, scenario] of Object.entries(scenarios)) {
    if (typeof scenario !== 'function') continue;
    test(code, async () => {
      const response = await scenario(harness);
      const text = await response.clone().text();
      const { errors = [] } = JSON.parse(text) as { errors?: object[] };
      const sources = errors.map(
        (fault) => Object.entries(fault).find(([name]) => name !== 'message')?.[1] as string,
      );
      const problem = await assertProblem(response, problems[code as ProblemCode].status, code, ...sources);
      assert.equal(problem.retry_after ?? null, numberOrNull(response.headers.get('retry-after')));
      assert.equal(response.headers.has('www-authenticate'), response.status === 401);
      assert.equal(response.headers.has('allow'), response.status === 405);
    });
  }
});

function numberOrNull(text: string | null): number | null {
  return text === null ? null : Number(text);
}
