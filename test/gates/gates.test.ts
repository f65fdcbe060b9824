import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
const left = new Set(['node_modules', '.git', '.data', 'coverage']);

/**
 * Every check is shown one fault of each kind that it is there for, planted in a copy of the tree, and has to name it.
 * A check that finds nothing because it reads nothing looks just like one that passes.
 */
describe('a planted fault is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'handoff-gates-'));
  const whole = join(folder, 'whole');
  /** Of the code, little is left here: checks that look at each file by itself find a fault in seconds. */
  const small = join(folder, 'small');
  const code = /^(?:src|test|simulators|bench)\/[^/]+\/|^docs\//;
  before(() => {
    for (const [tree, isIn] of [
      [whole, () => true],
      [small, (path: string) => !code.test(path) || path.startsWith('src/platform')],
    ] as const) {
      const filter = (path: string) => !left.has(basename(path)) && isIn(relative(root, path));
      cpSync(root, tree, { recursive: true, filter });
      symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
      // The usual line means a folder, and here it is a link.
      const ignored = `${readFileSync(join(root, '.gitignore'), 'utf8')}\nnode_modules\n`;
      writeFileSync(join(tree, '.gitignore'), ignored);
    }
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Output of the check with these files planted; the files are gone afterwards. It has to fail. */
  const check = async (script: string, files: Record<string, string>, tree = small): Promise<string> => {
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      writeFileSync(join(tree, file), content, { flag: 'wx' });
    }
    const child = spawn('npm', ['run', '--silent', script], { cwd: tree, stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    for (const file of Object.keys(files)) rmSync(join(tree, file));
    assert.notEqual(code, 0, `${script} passes`);
    return output + errors;
  };

  test('by check:format', async () => {
    const output = await check('check:format', {
      'src/platform/base/planted-format.ts': 'export const  planted = "x"\n',
      'test/planted-order.ts':
        "import { b } from 'node:path';\nimport { a } from 'node:fs';\n\nexport { a, b };\n",
    });
    assert.match(output, /planted-format\.ts format/);
    assert.match(output, /planted-order\.ts.*assist\/source\/organizeImports/);
  });

  test('by check:lint', async () => {
    const branches = Array.from({ length: 12 }, (_, i) => `  if (n === ${i}) return ${i * i};`).join('\n');
    const lines = Array.from({ length: 61 }, (_, i) => `  n += ${i};`).join('\n');
    const output = await check('check:lint', {
      'src/platform/base/planted-ring-a.ts':
        "import type { B } from './planted-ring-b.ts';\nexport type A = B | string;\n",
      'src/platform/base/planted-ring-b.ts':
        "import type { A } from './planted-ring-a.ts';\nexport type B = A[];\n",
      'src/platform/base/planted-faults.ts': [
        'const work = async () => 1;',
        'export function lose(): void {\n  work();\n}',
        "export const same = (a: number) => a == 1 && console.log('x');",
        'export const wrong = (text: string): number => JSON.parse(text);',
        `export function winding(n: number): number {\n${branches}\n  return n;\n}`,
        `export function long(n: number): number {\n${lines}\n  return n;\n}`,
        'export default work;\n',
      ].join('\n'),
      'simulators/planted.ts': 'Promise.resolve(1);\n',
      'salesforce/planted.ts': 'Promise.resolve(1);\n',
      'test/planted.ts': 'Promise.resolve(1);\n',
      'bench/planted.ts': 'Promise.resolve(1);\n',
      'scripts/planted.js': 'Promise.resolve(1);\n',
    });
    const found = output.split('\n').filter((line) => line.includes('planted'));
    const has = (file: string, rule: string) =>
      assert.ok(
        found.some((line) => line.includes(file) && line.includes(rule)),
        `${rule} in ${file}`,
      );
    has('src/platform/base/planted-ring-a.ts', 'no-cycle');
    for (const rule of ['no-floating-promises', 'eqeqeq', 'no-console', 'no-unsafe-return', 'complexity']) {
      has('src/platform/base/planted-faults.ts', rule);
    }
    has('src/platform/base/planted-faults.ts', 'max-lines-per-function');
    has('src/platform/base/planted-faults.ts', 'no-default-export');
    for (const folder of ['simulators', 'salesforce', 'test', 'bench', 'scripts']) {
      has(`${folder}/planted.`, 'no-floating-promises');
    }
  });

  test('by check:types', async () => {
    const output = await check('check:types', {
      'src/platform/base/planted-type.ts': "export const planted: number = 'x';\n",
      'src/platform/base/planted-enum.ts': 'export enum Planted {\n  a,\n}\n',
      'simulators/planted.ts': 'export const planted: string = [1][0];\n',
      'scripts/planted.js': '/** @type {number} */\nexport const planted = true;\n',
    });
    assert.match(output, /planted-type\.ts.*TS2322/);
    assert.match(output, /planted-enum\.ts.*TS1294/);
    assert.match(output, /simulators\/planted\.ts.*TS2322/);
    assert.match(output, /scripts\/planted\.js.*TS2322/);
  });

  test('by check:dead-code', async () => {
    const output = await check(
      'check:dead-code',
      {
        'src/platform/base/planted-file.ts': 'export const planted = 1;\n',
        'src/platform/base/planted-export.ts': 'export const used = 1;\nexport const plantedExport = 2;\n',
        'test/planted.test.ts':
          "import { used } from '../src/platform/base/planted-export.ts';\nimport 'left-pad';\n\nused;\n",
      },
      whole,
    );
    assert.match(output, /Unused files[\s\S]*src\/platform\/base\/planted-file\.ts/);
    assert.match(output, /Unused exports[\s\S]*plantedExport .*src\/platform\/base\/planted-export\.ts/);
    assert.match(output, /Unlisted dependencies[\s\S]*left-pad/);
  });

  test('by check:dead-code, where only tests use what is in src', async () => {
    const script = 'check:dead-code:production';
    const output = await check(
      script,
      {
        'src/platform/base/planted-file.ts': 'export const planted = 1;\n',
        'test/planted.test.ts':
          "import { planted } from '../src/platform/base/planted-file.ts';\n\nplanted;\n",
      },
      whole,
    );
    assert.match(output, /Unused files[\s\S]*src\/platform\/base\/planted-file\.ts/);
  });

  test('by check:secrets', async () => {
    const letters = (count: number) => randomBytes(count).toString('hex').slice(0, count);
    const pem = (label: string) =>
      `-----BEGIN ${label}-----\n${randomBytes(120).toString('base64')}\n-----END ${label}-----\n`;
    const output = await check('check:secrets', {
      'docs/planted-key.md': `x-api-key: hgk_${letters(16)}_${letters(22)}\n`,
      'test/planted-secret.ts': `export const secret = 'hgs_${letters(49)}';\n`,
      'src/platform/base/planted.pem': pem('PRIVATE KEY'),
      'src/platform/base/planted-line.ts': `export const key = ${JSON.stringify(pem('ENCRYPTED PRIVATE KEY'))};\n`,
      // The rule wants a letter or a digit at the end.
      '.ci/planted-aws': `AWS_SECRET_ACCESS_KEY=${randomBytes(30).toString('base64').slice(0, -1)}A\n`,
      '.planted-url': `url=postgres://user:${letters(12)}@db.example.com/handoff\n`,
    });
    for (const file of ['key.md', 'secret.ts', '.pem', 'line.ts', 'aws', 'url']) {
      assert.match(output, new RegExp(`planted-?${file.replace('.', '\\.')}`), file);
    }
  });

  test('by check:salesforce', async () => {
    const output = await check(
      'check:salesforce',
      {
        'salesforce/force-app/main/default/objects/Quote__c/fields/Planted__c.field-meta.xml':
          '<CustomField>\n',
      },
      whole,
    );
    assert.match(output, /Planted__c/);
  });
});
