import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/folders.ts';
import type { Credentials } from '../support/gateway.ts';
import { createInstallation } from '../support/gateway-process.ts';
import {
  type Answer,
  assertReplays,
  isReplay,
  type KeyedWrite,
  KeyedWrites,
} from '../support/keyed-writes.ts';
import { embedded } from '../support/own-database.ts';
import { type OwnOrg, startOwnOrg } from '../support/own-org.ts';
import { findPostgresPrograms, startPostgres } from '../support/postgres.ts';
import { codeBlocks, readPage } from './pages.ts';

const programs = findPostgresPrograms();
const postgres = programs === undefined ? undefined : await startPostgres();

/** Runs the commands that the page has under a heading, the first block or the second. */
async function follow(heading: string, index: number, cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  const [, section = ''] = readPage('docs/backup.md').split(`\n## ${heading}\n`);
  const { text = '' } =
    codeBlocks(section.split('\n## ')[0] ?? '').filter(({ language }) => language === 'sh')[index] ?? {};
  assert.notEqual(text, '', heading);
  const PATH = [programs, process.env['PATH']].join(delimiter);
  await promisify(execFile)('sh', ['-euc', text], { cwd, env: { ...env, PATH } });
}

interface Done {
  write: KeyedWrite;
  answer: Answer;
}

async function sendAll(writes: KeyedWrite[], url: string): Promise<Done[]> {
  const done: Done[] = [];
  for (const write of writes) {
    const answer = await write.send(url);
    write.assertDone(answer);
    done.push({ write, answer });
  }
  return done;
}

async function oneOfEach(org: OwnOrg, console: Credentials, url: string): Promise<KeyedWrite[]> {
  return Object.values(await new KeyedWrites(org.org, console).oneOfEach(url));
}

describe('a backup, made and restored as the page says,', () => {
  test('has every key of before it, and what came later is found by its External ID', {
    skip: !postgres && 'no PostgreSQL',
  }, async () => {
    const folder = temporaryFolder();
    const fresh = await startPostgres({ empty: true });
    const org = await startOwnOrg();
    const first = await createInstallation({ DATABASE_URL: postgres?.url }, org);
    const secrets = join(folder, 'secrets');
    const second = await createInstallation({ DATABASE_URL: fresh?.url, SECRETS_DIR: secrets }, org);
    // With the org's key, which has to come from the backup.
    await rm(secrets, { recursive: true });
    try {
      const lost = await first.start();
      const { console } = await first.credentials();
      const before = await sendAll(await oneOfEach(org, console, lost.url), lost.url);
      // Salesforce gives times in whole seconds.
      const moment = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
      const running = { DATABASE_URL: postgres?.url, SECRETS_DIR: join(first.dataDir, 'secrets') };
      await follow('Back up', 0, folder, running);
      const writes = new KeyedWrites(org.org, console);
      const later = await sendAll([writes.creation(), writes.handOff()], lost.url);
      lost.signal('SIGKILL');
      await lost.ended;

      await follow('Restore', 0, folder, { DATABASE_URL: fresh?.url, SECRETS_DIR: secrets });
      const restored = await second.start();
      for (const { write, answer } of before) await assertReplays(write, restored.url, answer);
      await assertIsFoundAndMadeTwice(later, await idsSince(moment, restored.url, console), restored.url);
    } finally {
      for (const installation of [first, second]) await installation.remove();
      await Promise.all([org.close(), fresh?.stop(), postgres?.stop(), rm(folder, { recursive: true })]);
    }
  });

  test('has everything of the embedded mode', async () => {
    const folder = temporaryFolder();
    const org = await startOwnOrg();
    const installation = await createInstallation(embedded, org);
    try {
      const old = await installation.start();
      const { console } = await installation.credentials();
      const before = await sendAll(await oneOfEach(org, console, old.url), old.url);
      old.signal('SIGTERM');
      await old.ended;
      const copy = join(folder, 'copy');
      await mkdir(copy);
      await follow('The embedded mode', 0, folder, { DATA_DIR: installation.dataDir });
      await follow('The embedded mode', 1, folder, { DATA_DIR: copy });
      const restored = await installation.start({ DATA_DIR: copy });
      for (const { write, answer } of before) await assertReplays(write, restored.url, answer);
    } finally {
      await installation.remove();
      await Promise.all([org.close(), rm(folder, { recursive: true })]);
    }
  });
});

/** What came after the backup is in the list since then, and a repeat makes a second record. */
async function assertIsFoundAndMadeTwice(later: Done[], listed: string[], url: string): Promise<void> {
  for (const { write, answer } of later) {
    const { id, external_id: externalId } = JSON.parse(answer.text) as { id: string; external_id?: string };
    assert.ok(listed.includes(externalId ?? id), answer.text);
    const again = await write.send(url);
    assert.equal(isReplay(again), false);
    assert.equal((await write.records()).length, 2);
  }
}

/** External IDs of the quotes and bookings that changed since. */
async function idsSince(moment: string, url: string, { apiKey, apiSecret }: Credentials): Promise<string[]> {
  const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
  const pages = ['quotes', 'bookings'].map(async (name) => {
    const response = await fetch(`${url}/v1/${name}?updated_since=${moment}`, { headers });
    const { data } = (await response.json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  });
  return (await Promise.all(pages)).flat();
}
