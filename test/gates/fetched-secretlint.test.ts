import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '../..');
const packages = ['secretlint@13.0.6', '@secretlint/secretlint-rule-preset-recommend@13.0.7'];
const config = {
  rules: [
    {
      id: '@secretlint/secretlint-rule-preset-recommend',
      rules: [
        {
          id: '@secretlint/secretlint-rule-database-connection-string',
          options: { allows: ['/:hunter2@/'] },
        },
      ],
    },
  ],
};

/** Its 60 packages are fetched when the test runs. Where they cannot be, it is skipped; `npm test` has rules of its own. */
test('secretlint finds no secret in the tree', { timeout: 300_000 }, async (context) => {
  const exec = (...words: string[]) =>
    promisify(execFile)(
      'npm',
      ['exec', '--yes', '--ignore-scripts', ...packages.map((one) => `--package=${one}`), '--', ...words],
      { cwd: root },
    );
  const isThere = await exec('secretlint', '--version').then(
    () => true,
    () => false,
  );
  if (!isThere) return context.skip(`${packages[0]} could not be fetched`);
  const { stdout } = await exec('secretlint', '--secretlintrcJSON', JSON.stringify(config), '**/*', '**/.*');
  assert.equal(stdout.trim(), '');
});
