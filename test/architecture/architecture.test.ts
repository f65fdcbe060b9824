import assert from 'node:assert/strict';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { findViolations } from './check.ts';
import { mayImport, packageHomes } from './rules.ts';
import { tableOwners } from './table-owners.ts';
import { findTableViolations, tablesOf } from './tables.ts';

const root = join(import.meta.dirname, '../..');

describe('the architecture', () => {
  test('is kept by every import', () => {
    assertNone(findViolations(root), 'Allow it in test/architecture/rules.ts, if it follows ARCHITECTURE.md');
  });

  test('is kept by every use of a table', () => {
    const advice = 'Call the owner that test/architecture/table-owners.ts names';
    assertNone(findTableViolations(root), advice);
  });

  test('names the owner of each table, and of no other', () => {
    const named = Object.keys(tableOwners);
    const tables = tablesOf(root);
    const differing = [...new Set(named).symmetricDifference(new Set(tables))];
    const gone = Object.values(tableOwners).filter((owner) => !existsSync(join(root, owner)));
    assertNone([...differing, ...gone], 'Say in test/architecture/table-owners.ts who owns it');
  });

  test('has tests that end', () => {
    const pausing = /while \([^\n]*\)\s+await (?:sleep|delay|turn|nextTick|new Promise)\b/;
    const loops = /^( *)(?:for \(;;\)|do) \{\n([\s\S]*?)^\1\}/gm;
    const isEndless = (body: string) =>
      /\b(?:sleep|delay|setTimeout)\(/.test(body) && !body.includes('performance.now()');
    const endless = globSync('test/**/*.ts', { cwd: root }).filter((file) => {
      const code = readFileSync(join(root, file), 'utf8');
      return pausing.test(code) || [...code.matchAll(loops)].some(([, , body = '']) => isEndless(body));
    });
    assertNone(endless, 'Wait with `eventually` of test/support/eventually.ts, which has a bound');
  });

  test('is described by rows that exist', () => {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
      'dependencies' | 'optionalDependencies',
      Record<string, string>
    >;
    const own = JSON.parse(readFileSync(join(root, 'client/package.json'), 'utf8')) as { name: string };
    const dependencies = { ...manifest.dependencies, ...manifest.optionalDependencies, [own.name]: '' };
    const paths = [...Object.keys(mayImport), ...Object.values(mayImport).flat()];
    const unused = [
      ...paths.filter((path) => !existsSync(join(root, path))),
      ...Object.keys(packageHomes).filter((name) => !(name in dependencies)),
    ];
    assertNone(unused, 'Take the row out of test/architecture/rules.ts');
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

/** Fails with what was found and what to do about it. */
function assertNone(found: readonly string[], advice: string): void {
  assert.ok(found.length === 0, `${advice}:\n  ${found.join('\n  ')}`);
}

const trees: string[] = [];
after(() => {
  for (const tree of trees) rmSync(tree, { recursive: true });
});

function plant(files: Record<string, string>): string {
  const tree = mkdtempSync(join(tmpdir(), 'handoff-architecture-'));
  trees.push(tree);
  for (const [file, code] of Object.entries(files)) {
    mkdirSync(dirname(join(tree, file)), { recursive: true });
    writeFileSync(join(tree, file), code);
  }
  return tree;
}

describe('a planted violation is found', () => {
  const violationsIn = (files: Record<string, string>) => findViolations(plant(files));

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
    'by passing on nothing': [
      'src/platform/base/x.ts',
      "export {} from '../observability/log.ts';",
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
      "import '../../src/platform/base/text.ts';",
      'src/platform/base/text.ts',
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
      "import '../platform/base/text.ts';",
      'src/platform/base/text.ts',
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

  test('a clock that is not the one of the simulation', () => {
    const found = violationsIn({ 'src/crm/x.ts': 'export const at = () => new Date();' });
    assert.match(found.join(), /^src\/crm\/x\.ts reads the clock by new Date\(\)/);
  });

  test('a docstring whose first words say nothing', () => {
    const found = violationsIn({
      'src/crm/x.ts':
        '/** Of each kind. */\nconst most = 100;\n/**\n * What it makes.\n */\nexport { most };',
      'src/crm/y.ts': '/** Whatever is left; often none. */\nexport const rest = 1;',
    });
    assert.deepEqual(
      found,
      ['Of', 'What'].map(
        (words) =>
          `src/crm/x.ts has a docstring that begins with "${words}": begin with a noun or verb of the domain`,
      ),
    );
  });

  test('and nothing is found where every rule is kept', () => {
    const found = violationsIn({
      'src/main.ts': "import './cli/run.ts';",
      'src/cli/run.ts': "import { Command } from 'commander';\nimport '../app.ts';",
      'src/identity/consumers/x.ts':
        "import { hash } from 'node:crypto';\nimport '../../platform/secrets/secrets-manager.ts';",
    });
    assert.deepEqual(found, []);
  });
});

describe("a planted use of another's table is found", () => {
  const file = 'src/features/handoff/x.ts';
  const violationsIn = (code: string) => findTableViolations(plant({ [file]: code }));

  const forbidden: Record<string, string> = {
    'that is read': 'sql`select id from events`',
    'that is read by a subquery': 'sql<Row>`select (select max(sequence) from events)`',
    'that is joined': 'sql`select from handoffs h left join events e on e.id = h.id`',
    'that comes later in a list': 'sql`select from unnest(${ids}) as added (id), handoffs as h, events`',
    'in a condition': 'sql`select 1 where exists (select from events)`',
    'that rows are added to': 'sql`insert into events (id) values (${id})`',
    'that is changed': 'sql`update only events as e set id = ${id}`',
    'in a query that others follow': 'sql`with x as (update events set id = 1 returning id) select from x`',
    'that is cleared': 'sql`delete from events`',
    'whose rows say what is cleared': 'sql`delete from handoffs h using events e where e.id = h.id`',
    'that is emptied': "database.execute('truncate handoffs, events')",
    'that is locked': 'sql`lock table events in share mode`',
    'in a join of its own': "sql.raw('left join events e on true')",
    'in a text': "const text = 'select id ' + `from handoffs where exists (select from events)`;",
    'in quotes': 'sql`select from "events"`',
    'with its schema': 'sql`select from PUBLIC.Events`',
    'by its class': "sql`select reltuples from pg_class where oid = 'events'::regclass`",
    'after a comment': 'sql`select 1 -- not from handoffs\n from events`',
    'by Kysely': "queries.selectFrom('events as e')",
    'by Kysely, of several': "queries.selectFrom(['handoffs', 'events'])",
    'by an insertion of Kysely': "queries.insertInto('events')",
    'by an update of Kysely': "queries.updateTable('events')",
    'by a deletion of Kysely': "queries.deleteFrom('events')",
    'whose rows are leased': "leasesOf({ table: 'events', row: 'e', key: ['id'] })",
    'whose name is an argument': "isDue('events')",
    'whose name is an argument, in backquotes': 'isDue(`events`)',
    'whose rows are forgotten': 'forgetRows({ from: sql`events e` })',
    'later in the list of a fragment': 'sql`handoffs h, events e`',
    'in a fragment that begins with a comma': 'sql`, events e`',
    'in a raw fragment': "sql.raw('events e')",
    'by a reference to it': "sql.ref('events')",
    'by a reference to its column': "sql.ref('events.id')",
    'that a query is named like': 'sql`with events as (select id from events) select from events`',
    'beside a query of that name in another scope':
      'sql`select from (with events as (select 1) select from events) as e, events`',
  };
  for (const [what, code] of Object.entries(forbidden)) {
    test(`of a table ${what}`, () => {
      assert.deepEqual(violationsIn(code), [`${file} may not use the table events of src/features/events`]);
    });
  }

  const allowed: Record<string, string> = {
    'its own table': 'sql`select from handoffs`',
    'a query of that name':
      'sql`with recursive one as (select 1), events (id) as materialized (select 2) select from events`',
    'a column of that name':
      'sql`select handoffs.events, count(*) as events, most.events from handoffs order by status, events`',
    'a function of that name': 'sql`select from events(1) where a is distinct from events`',
    'a comment': 'sql`select 1 -- from events\n /* from events */`',
    'a value': "sql`select 'from events'`",
    'a reference to a column of that name': "sql.ref('handoffs.events')",
    'a text that has more than the name': "const texts = ['/events', 'events.keptDays', `events ${count}`];",
    prose: "log.warn('where events come from, events are read from events')",
  };
  for (const [what, code] of Object.entries(allowed)) {
    test(`but not of ${what}`, () => {
      assert.deepEqual(violationsIn(code), []);
    });
  }

  test('a table that nobody owns, among those that are there', () => {
    const folder = 'src/platform/store/migrations';
    const tree = plant({
      [`${folder}/0001-x.sql`]: 'create table novel (id text);\ncreate table if not exists brief (id text);',
      [`${folder}/0002-x.sql`]: '-- create table noted\ndrop table brief;\nalter table novel rename to tale;',
    });
    assert.deepEqual(findTableViolations(tree), ['the table tale has no owner']);
  });
});
