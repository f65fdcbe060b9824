import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { packClient } from '../../scripts/pack-client.js';
import { describeRoutes, documentedRoutes } from '../../src/app/routes.ts';
import { root } from '../docs/pages.ts';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { accept } from '../support/handoffs.ts';

interface Operation {
  operationId: string;
  'x-codeSamples'?: { lang: string; source: string }[];
}

const run = promisify(execFile);
const { paths } = describeRoutes(documentedRoutes()) as { paths: Record<string, Record<string, Operation>> };
const sampled = Object.values(paths)
  .flatMap((methods) => Object.values(methods))
  .flatMap(({ operationId, 'x-codeSamples': samples }) => (samples ? [{ operationId, samples }] : []));

const languages: Record<string, { file: string; command: string }> = {
  TypeScript: { file: 'sample.mts', command: process.execPath },
  Python: { file: 'sample.py', command: 'python3' },
};

/** Those of the shell are run with all other commands of the document: docs-examples.test.ts. */
describe('the samples of the API document', () => {
  let gateway: TestGateway;
  let as: Credentials;
  let folder: string;
  before(async () => {
    gateway = await startGateway({ CHANGES_POLL_SECONDS: '3600' });
    const permissions = [
      { resource: 'members', actions: ['read'] },
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'bookings', actions: ['read', 'write'] },
    ];
    const body = { name: 'T', mode: 'test', permissions };
    as = (await (
      await gateway.request('/v1/admin/consumers', { as: gateway.admin, body })
    ).json()) as Credentials;
    folder = await mkdtemp(join(tmpdir(), 'handoff-samples-'));
    writeFileSync(join(folder, 'package.json'), '{}');
    const options = ['--no-audit', '--no-fund', '--cache', join(folder, 'cache')];
    await run('npm', ['install', ...options, packClient(join(folder, 'client.tgz'))], { cwd: folder });
    await mkdir(join(folder, 'node_modules/@types'), { recursive: true });
    symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  });
  after(async () => {
    await gateway.stop();
    await rm(folder, { recursive: true });
  });

  test('are those of the ten operations that are used most, in three languages', () => {
    assert.equal(sampled.length, 10);
    for (const { operationId, samples } of sampled)
      assert.deepEqual(
        samples.map(({ lang }) => lang),
        ['Shell', 'TypeScript', 'Python'],
        operationId,
      );
  });

  for (const [lang, { file, command }] of Object.entries(languages))
    test(`work in ${lang}`, async (context) => {
      const isThere = await run(command, ['--version']).then(Boolean, () => false);
      if (!isThere) return context.skip(`there is no ${command}`);
      for (const { operationId, samples } of sampled) {
        // A guest has one table at a time.
        await gateway.request('/v1/test/reset', { method: 'POST', as });
        const needsHandoff = operationId === 'getHandoff';
        const ID = needsHandoff ? await accept(gateway, {}, { as }) : '0d4f8a52-6a0e-4ad2-9f5e-7a1d3b2c4e5f';
        writeFileSync(join(folder, file), samples.find((sample) => sample.lang === lang)?.source ?? '');
        const own = { HANDOFF_API_KEY: as.apiKey, HANDOFF_API_SECRET: as.apiSecret, ID };
        const env = { ...process.env, HANDOFF_URL: gateway.url, ...own };
        const { stdout } = await run(command, [file], { cwd: folder, env });
        assert.match(stdout, /id|data/, operationId);
      }
    });

  test('compile as they stand in TypeScript', async () => {
    const files = sampled.map(({ operationId, samples }) => {
      writeFileSync(
        join(folder, `${operationId}.mts`),
        samples.find(({ lang }) => lang === 'TypeScript')?.source ?? '',
      );
      return `${operationId}.mts`;
    });
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
    await run(join(root, 'node_modules/.bin/tsc'), [...options, ...files], { cwd: folder }).catch(
      (error: { stdout: string }) => assert.fail(error.stdout),
    );
  });
});
