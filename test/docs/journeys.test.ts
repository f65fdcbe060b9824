import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { useGateway } from '../support/gateway.ts';
import { root } from './pages.ts';

const path = 'docs/journeys.arazzo.yaml';
const run = promisify(execFile);

interface Workflow {
  workflowId: string;
  inputs: { required: string[]; properties: Record<string, { format?: string }> };
}

const { workflows } = parse(readFileSync(join(root, path), 'utf8')) as { workflows: Workflow[] };

/** Throws, with what it says, where the program finds a fault. */
async function redocly(...given: string[]): Promise<void> {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off' };
  await run(process.execPath, [join(root, 'node_modules/.bin/redocly'), ...given], { cwd: root, env }).catch(
    ({ stdout, stderr }: { stdout: string; stderr: string }) => assert.fail(`${stdout}${stderr}`),
  );
}

describe(path, () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '5' });

  test('is Arazzo', () => redocly('lint', path));

  test('has inputs that programs know, and a key of its own for each write', () => {
    const inputs = workflows.flatMap(({ inputs: { properties } }) => Object.entries(properties));
    for (const [name, { format }] of inputs) assert.equal(format, undefined, name);
    const keys = inputs.flatMap(([name]) => (name.endsWith('Key') && name !== 'apiKey' ? [name] : []));
    assert.equal(new Set(keys).size, keys.length);
  });

  for (const { workflowId, inputs } of workflows)
    test(`${workflowId} leads to its end, and each answer fits the API document`, async () => {
      const { apiKey, apiSecret } = gateway.console;
      const day = new Date(Date.now() + 7 * 86_400_000).toISOString().slice(0, 10);
      const values: Record<string, string> = { apiKey, apiSecret, startAt: `${day}T19:00:00.000Z` };
      const given = inputs.required.map((name) => `--input=${name}=${values[name] ?? randomUUID()}`);
      await redocly(
        'respect',
        path,
        '--workflow',
        workflowId,
        '--server',
        `gateway=${gateway.url}`,
        ...given,
      );
    });
});
