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
const redocly = ['redocly', 'lint', path, '--format=json'];

// oxlint-disable-next-line typescript/no-explicit-any -- any part of the document is changed
type Change = (api: any) => unknown;

describe('docs/openapi.json', () => {
  test('is as the routes are (if not: npm run openapi)', () => {
    assert.equal(readFileSync(join(root, path), 'utf8'), generatedOpenApi());
  });

  test('passes Redocly, recommended-strict and the rules of redocly.yaml', async () => {
    const { code, output } = await run(root, redocly);
    assert.equal(code, 0, output);
  });

  describe('with a planted fault', () => {
    let tree: string;
    before(() => {
      tree = mkdtempSync(join(tmpdir(), 'handoff-openapi-'));
      mkdirSync(join(tree, 'docs'));
      cpSync(join(root, 'redocly.yaml'), join(tree, 'redocly.yaml'));
      symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    });
    after(() => rmSync(tree, { recursive: true }));

    const lint = async (change: Change): Promise<string> => {
      const api: unknown = JSON.parse(readFileSync(join(root, path), 'utf8'));
      change(api);
      writeFileSync(join(tree, path), JSON.stringify(api));
      const { code, output } = await run(tree, redocly);
      assert.notEqual(code, 0, output);
      return output;
    };

    const planted = async (rules: string[], change: Change): Promise<void> => {
      const output = await lint(change);
      for (const rule of rules) assert.match(output, new RegExp(`"ruleId": ?"${rule}"`));
    };

    test('of the document is refused', () =>
      planted(
        ['struct', 'no-unused-components', 'no-invalid-media-type-examples', 'operation-operationId'],
        ({ components: { schemas, headers }, paths }) => {
          schemas.Quote.properties.id.type = 'text';
          headers['X-Unused'] = { schema: { type: 'string' } };
          delete paths['/api/v1/handoff'].post.requestBody.content['application/json'].example.result;
          delete paths['/v1/members'].get.operationId;
        },
      ));

    test('of names that code is generated from is refused', () =>
      planted(
        [
          'rule/tags-begin-with-a-capital',
          'rule/operation-ids-are-names',
          'operation-operationId-unique',
          'operation-tag-defined',
          'no-unresolved-refs',
        ],
        ({ tags, paths, components: { schemas } }) => {
          tags[0].name = 'hand-off';
          paths['/v1/members'].get.operationId = 'list-members';
          paths['/v1/quotes'].get.operationId = 'listBookings';
          schemas.Consumer.properties.name = { $ref: '#/components/schemas/Name' };
        },
      ));

    test('of security is refused', () =>
      planted(
        [
          'rule/texts-are-bounded',
          'rule/integers-have-a-least-value',
          'rule/integers-have-a-greatest-value',
          'rule/arrays-are-bounded',
          'rule/errors-are-declared',
          'rule/incomplete-requests-are-declared',
          'rule/errors-tell-the-mode',
          'rule/refusals-have-a-challenge',
          'rule/answers-have-the-rate-limit',
          'rule/writes-need-credentials',
          'operation-description',
        ],
        ({ components: { schemas, parameters, responses }, paths }) => {
          delete schemas.NewQuote.properties.name.maxLength;
          const limit = paths['/v1/members'].get.parameters.find(
            (found: { name?: string }) => found.name === 'limit',
          );
          delete (limit ?? parameters.limit).schema.minimum;
          delete (limit ?? parameters.limit).schema.maximum;
          delete schemas.Consumer.properties.permissions.maxItems;
          delete paths['/v1/members'].get.responses['429'];
          delete paths['/v1/members'].get.responses['408'];
          delete responses.RequestTimeout.headers['Handoff-Mode'];
          delete paths['/oauth/token'].post.responses['401'].headers['WWW-Authenticate'];
          delete paths['/v1/members'].get.responses['200'].headers.RateLimit;
          paths['/v1/quotes'].post.security = [];
          delete paths['/v1/quotes'].get.description;
        },
      ));
  });
});

/** Runs a program of node_modules/.bin; it is not to report home. */
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
