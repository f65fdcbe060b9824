import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { findViolations } from './check.ts';
import { mayImport, packageHomes } from './rules.ts';

const root = join(import.meta.dirname, '../..');

describe('the architecture', () => {
  test('is kept by every import', () => {
    assert.deepEqual(findViolations(root), []);
  });

  test('is described by rows that exist', () => {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
      'dependencies' | 'optionalDependencies',
      Record<string, string>
    >;
    const own = JSON.parse(readFileSync(join(root, 'client/package.json'), 'utf8')) as { name: string };
    const dependencies = { ...manifest.dependencies, ...manifest.optionalDependencies, [own.name]: '' };
    const paths = [...Object.keys(mayImport), ...Object.values(mayImport).flat()];
    assert.deepEqual(
      paths.filter((path) => !existsSync(join(root, path))),
      [],
    );
    assert.deepEqual(
      Object.keys(packageHomes).filter((name) => !(name in dependencies)),
      [],
    );
  });

  test('allows no ring between folders', () => {
    const isAllowedBack = (a: string, b: string) =>
      mayImport[b]?.some((path) => path === a || path.startsWith(`${a}/`));
    for (const [area, allowed] of Object.entries(mayImport)) {
      for (const other of allowed)
        assert.ok(!isAllowedBack(area, other), `${area} and ${other} allow each other`);
    }
  });
});

describe('a planted violation is found', () => {
  const trees: string[] = [];
  after(() => {
    for (const tree of trees) rmSync(tree, { recursive: true });
  });

  const violationsIn = (files: Record<string, string>): string[] => {
    const tree = mkdtempSync(join(tmpdir(), 'handoff-architecture-'));
    trees.push(tree);
    for (const [file, code] of Object.entries(files)) {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      writeFileSync(join(tree, file), code);
    }
    return findViolations(tree);
  };

  const forbidden: Record<string, [file: string, code: string, imported: string]> = {
    'of an adapter by a feature': [
      'src/features/handoff/x.ts',
      "import '../../platform/store/postgres.ts';",
      'src/platform/store/postgres.ts',
    ],
    'from below to the HTTP face': ['src/records/x.ts', "import '../api/server.ts';", 'src/api/server.ts'],
    'of a feature by the HTTP face': [
      'src/api/x.ts',
      "import '../features/handoff/handoffs.ts';",
      'src/features/handoff/handoffs.ts',
    ],
    'of a type alone': [
      'src/records/x.ts',
      "import type { App } from '../app.ts';\nexport type X = App;",
      'src/app.ts',
    ],
    'of a type in place': [
      'src/records/x.ts',
      "export type X = import('../crm/crm.ts').Crm;",
      'src/crm/crm.ts',
    ],
    'by passing on': [
      'src/platform/base/x.ts',
      "export * from '../observability/log.ts';",
      'src/platform/observability/log.ts',
    ],
    'of an adapter in place of its port': [
      'src/identity/consumers/x.ts',
      "import '../../platform/secrets/file.ts';",
      'src/platform/secrets/file.ts',
    ],
    'of the settings by a domain folder': [
      'src/crm/x.ts',
      "import '../platform/settings/settings.ts';",
      'src/platform/settings/settings.ts',
    ],
    'of the service by a simulator': [
      'simulators/salesforce/x.ts',
      "import '../../src/platform/base/uuid.ts';",
      'src/platform/base/uuid.ts',
    ],
    'of a simulator by the service, when it runs': [
      'src/app.ts',
      "await import('../simulators/salesforce/main.ts');",
      'simulators/salesforce/main.ts',
    ],
    'of a worker by its URL': [
      'src/platform/store/x.ts',
      "new URL('../../crm/worker.ts', import.meta.url);",
      'src/crm/worker.ts',
    ],
    'of a package outside its home': ['src/features/handoff/x.ts', "import { Pool } from 'pg';", 'pg'],
    'of a package by resolving it': [
      'src/crm/x.ts',
      "import.meta.resolve('ioredis/built/index.js');",
      'ioredis',
    ],
    'of a package that has no home': ['src/platform/base/x.ts', "import 'left-pad';", 'left-pad'],
    'by a folder that has no rule': [
      'src/novel/x.ts',
      "import '../platform/base/uuid.ts';",
      'src/platform/base/uuid.ts',
    ],
  };
  for (const [what, [file, code, imported]] of Object.entries(forbidden)) {
    test(`an import ${what}`, () => {
      assert.deepEqual(violationsIn({ [file]: code }), [`${file} may not import ${imported}`]);
    });
  }

  test('an import that is computed', () => {
    const found = violationsIn({ 'src/cli/x.ts': 'await import(process.argv[2]);' });
    assert.match(found.join(), /^src\/cli\/x\.ts computes the name of an import/);
  });

  test('folders that import each other in a ring', () => {
    const found = violationsIn({
      'src/crm/rest/a.ts': "import type { B } from '../soql/b.ts';\nexport type A = B;",
      'src/crm/soql/b.ts': "export { c as B } from '../token/c.ts';",
      'src/crm/token/c.ts': "export const c = () => import('../rest/d.ts');",
      'src/crm/crm.ts': "import './rest/a.ts';",
    });
    const ring = 'src/crm/rest → src/crm/soql → src/crm/token → src/crm/rest';
    assert.deepEqual(found, [`the folders import each other in a ring: ${ring}`]);
  });

  test('files of one folder that import each other in a ring, if only by types and when they run', () => {
    const found = violationsIn({
      'src/crm/port.ts': "export const open = () => import('./adapter.ts');\nexport type Port = 1;",
      'src/crm/adapter.ts': "export type { Port } from './middle.ts';",
      'src/crm/middle.ts': "import type { Port } from './port.ts';\nexport type { Port };",
      'src/crm/crm.ts': "import './port.ts';",
    });
    const ring = 'src/crm/adapter.ts → src/crm/middle.ts → src/crm/port.ts → src/crm/adapter.ts';
    assert.deepEqual(found, [`the files import each other in a ring: ${ring}`]);
  });

  test('and nothing is found where every rule is kept', () => {
    const found = violationsIn({
      'src/main.ts': "import './cli/run.ts';",
      'src/cli/run.ts': "import { Command } from 'commander';\nimport '../app.ts';",
      'src/identity/consumers/x.ts':
        "import { randomUUID } from 'node:crypto';\nimport '../../platform/secrets/secrets-manager.ts';",
    });
    assert.deepEqual(found, []);
  });
});
