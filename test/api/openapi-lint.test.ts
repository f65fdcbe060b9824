import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { generatedOpenApi } from '../../scripts/generate-openapi.ts';

const root = join(import.meta.dirname, '../..');
const path = 'docs/openapi.json';
const redocly = ['redocly', 'lint', 'gateway', '--format=json'];
const spectral = ['spectral', 'lint', path, '--fail-severity=hint', '--format=text', '--quiet'];

describe('docs/openapi.json', () => {
  test('is as the routes are (if not: npm run openapi)', () => {
    assert.equal(readFileSync(join(root, path), 'utf8'), generatedOpenApi());
  });

  test('passes Redocly, recommended-strict', async () => {
    const { code, output } = await run(root, redocly);
    assert.equal(code, 0, output);
  });

  test('passes Spectral with the rules of OWASP', async () => {
    const { code, output } = await run(root, spectral);
    assert.equal(code, 0, output);
  });

  describe('with a planted fault', () => {
    let tree: string;
    before(() => {
      tree = mkdtempSync(join(tmpdir(), 'handoff-openapi-'));
      mkdirSync(join(tree, 'docs'));
      for (const file of ['.spectral.yaml', 'redocly.yaml']) cpSync(join(root, file), join(tree, file));
      symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    });
    after(() => rmSync(tree, { recursive: true }));

    // oxlint-disable-next-line typescript/no-explicit-any -- any place of a document is changed here
    const lint = async (tool: string[], change: (api: any) => unknown): Promise<string> => {
      const api: unknown = JSON.parse(readFileSync(join(root, path), 'utf8'));
      change(api);
      writeFileSync(join(tree, path), JSON.stringify(api));
      const { code, output } = await run(tree, tool);
      assert.notEqual(code, 0, output);
      return output;
    };

    test('does not pass Redocly', async () => {
      const output = await lint(redocly, ({ components: { schemas, headers }, paths }) => {
        schemas.Quote.properties.id.type = 'text';
        headers['X-Unused'] = { schema: { type: 'string' } };
        delete paths['/api/v1/handoff'].post.requestBody.content['application/json'].example.result;
        delete paths['/v1/members'].get.operationId;
      });
      for (const rule of [
        'struct',
        'no-unused-components',
        'no-invalid-media-type-examples',
        'operation-operationId',
      ]) {
        assert.match(output, new RegExp(`"ruleId": ?"${rule}"`));
      }
    });

    test('does not pass Spectral', async () => {
      const output = await lint(spectral, ({ components: { schemas }, paths }) => {
        delete schemas.NewQuote.properties.name.maxLength;
        delete paths['/v1/members'].get.responses['429'];
        delete paths['/v1/members'].get.responses['200'].headers.RateLimit;
        paths['/v1/quotes'].post.security = [];
        delete paths['/v1/quotes'].get.description;
      });
      for (const rule of [
        'owasp:api4:2023-string-limit',
        'owasp:api4:2023-rate-limit-responses-429',
        'owasp:api4:2023-rate-limit',
        'owasp:api2:2023-write-restricted',
        'operation-description',
      ]) {
        assert.ok(output.includes(rule), `${rule} in ${output}`);
      }
    });
  });
});

/** Runs a program of node_modules/.bin; neither of them is to report home. */
async function run(
  cwd: string,
  [program = '', ...args]: string[],
): Promise<{ code: unknown; output: string }> {
  const child = spawn(process.execPath, [join(root, 'node_modules/.bin', program), ...args], {
    cwd,
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, output: output + errors };
}
