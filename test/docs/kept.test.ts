import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openTestDatabase } from '../support/databases.ts';
import { createInstallation, type Installation } from '../support/gateway-process.ts';
import { embedded } from '../support/own-database.ts';
import { readPage, root } from './pages.ts';

const page = 'docs/data-protection.md';

/** The code in the first cell of each row of the table under a heading. */
function firstCells(path: string, heading: RegExp): string[] {
  const [, section = ''] = readPage(path).split(heading);
  const [table = ''] = /(?:^\|.*\n)+/m.exec(section) ?? [];
  return [...table.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = '']) => name).toSorted();
}

describe('the page on data protection names all that is kept', () => {
  test('every table of the database', async () => {
    const opened = await openTestDatabase();
    try {
      const { rows } = await opened.replicas[0].execute(
        `select nspname as schema, relname as name from pg_namespace n left join pg_class c on c.relnamespace = n.oid
           and c.relkind in ('r', 'p') where nspname !~ '^(pg_|information_schema)'`,
      );
      const tables = rows as { schema: string; name: string | null }[];
      const names = tables.map(({ schema, name }) => (schema === 'public' ? String(name) : `${schema}.*`));
      assert.deepEqual(firstCells(page, /^### The database$/m), [...new Set(names)].toSorted());
    } finally {
      await opened.stop();
    }
  });

  test('every beginning of a key in Redis', () => {
    const sources = globSync('src/**/*.ts', { cwd: root }).map((path) => readPage(path));
    const keys = sources.flatMap((text) => [
      ...text.matchAll(/\b(?:key|keyOf|#key|keyPrefix|addToSeries|acquireLock)\b[^;`']{0,60}[`']([a-z_]+:)/g),
    ]);
    const beginnings = new Set(keys.map(([, beginning = '']) => beginning));
    assert.deepEqual(firstCells(page, /^### Redis$/m), [...beginnings].toSorted());
  });

  describe('as an installation has it', () => {
    let installation: Installation;
    before(async () => {
      installation = await createInstallation(embedded);
      await installation.start();
    });
    after(() => installation.remove());

    const secretsIn = (dir: string) =>
      readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.includes('~'))
        .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1))
        .map((name) => name.replace(/con_\w+$/, '<id>').replace('/dev/', '/<environment>/'));

    test('every secret, on the page on secrets managers', () => {
      // The first start with Redis, the first share, revocation, webhook endpoint and consumer of a test administrator make one
      // more each.
      const made = [
        ...['cache/<environment>/key', 'crm-shares', 'revoked-consumers'],
        ...['test-families/<id>', 'webhook-endpoints/<id>'],
        // An operator writes it, where people sign in.
        'people/<environment>/client-secret',
      ];
      const found = [...secretsIn(join(installation.dataDir, 'secrets')), ...made];
      const secrets = [...new Set(found)].toSorted();
      assert.ok(secrets.length > 5);
      assert.deepEqual(firstCells('docs/secrets-managers.md', /^Whichever it is, the names/m), secrets);
    });

    test('every file of the data folder', () => {
      const files = readdirSync(installation.dataDir).filter((name) => name !== 'config.json');
      assert.deepEqual(firstCells(page, /^### Files$/m), files.toSorted());
    });
  });
});

test('the page on jobs names every job and its schedule', () => {
  const files = ['src/app/app.ts', ...globSync('src/features/*/feature.ts', { cwd: root })];
  const source = files.map((file) => readFileSync(join(root, file), 'utf8')).join('\n');
  const jobs = [...source.matchAll(/name: '([a-z-]+)',\s+cron: '([^']+)'/g)].map(
    ([, name, cron]) => `| \`${name}\` | \`${cron}\` |`,
  );
  assert.ok(jobs.length > 5);
  const rows = [...readPage('docs/jobs.md').matchAll(/^\| `[a-z-]+` \| `[^`]+` \|/gm)].map(([row]) => row);
  assert.deepEqual(rows.toSorted(), jobs.toSorted());
});
