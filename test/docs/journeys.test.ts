import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { operationsOf, runWorkflow, type Workflow } from '../support/arazzo.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { root } from './pages.ts';

const path = 'docs/journeys.arazzo.yaml';
const run = promisify(execFile);
const { workflows } = parse(readFileSync(join(root, path), 'utf8')) as { workflows: Workflow[] };
const operations = operationsOf(JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8')) as object);

describe(path, () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startGateway({ CHANGES_POLL_SECONDS: '5' });
  });
  after(() => gateway.stop());

  test('is Arazzo', async () => {
    const redocly = join(root, 'node_modules/.bin/redocly');
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off' };
    await run(process.execPath, [redocly, 'lint', path], { cwd: root, env });
  });

  for (const workflow of workflows)
    test(`${workflow.workflowId} leads to its end`, async () => {
      const { apiKey, apiSecret } = gateway.console;
      const day = new Date(Date.now() + 7 * 86_400_000).toISOString().slice(0, 10);
      const inputs: Record<string, string> = {
        ...{ apiKey, apiSecret, tripId: randomUUID() },
        ...{ idempotencyKey: randomUUID(), cancellationKey: randomUUID(), startAt: `${day}T19:00:00.000Z` },
      };
      for (const name of workflow.inputs.required) assert.ok(name in inputs, name);
      await runWorkflow(workflow, operations, gateway.url, inputs);
    });
});
