import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { oldestProgramOf } from '../../../src/platform/store/migrate.ts';
import { createInstallation, type Installation } from '../../support/gateway-process.ts';
import {
  type Answer,
  assertReplays,
  isReplay,
  type KeyedWrite,
  KeyedWrites,
} from '../../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../../support/own-org.ts';
import { startPostgres } from '../../support/postgres.ts';
import { findPreviousRelease, type PreviousRelease, readMigrations } from '../../support/previous-release.ts';

test('every migration says in its first line which programs run on it', async () => {
  const files = await readMigrations();
  const numbers = files.map(({ file }) => Number(file.slice(0, 4)));
  const wrong = files.filter(({ sql }) => !numbers.includes(oldestProgramOf(sql) ?? -1));
  assert.deepEqual(
    wrong.map(({ file }) => file),
    [],
    'Begin these files with "-- Runs with programs from 0017 on.", with the number of the newest migration that the ' +
      'previous release has: see docs/upgrading.md#writing-a-migration.',
  );
});

const postgres = await startPostgres();

describe('the previous release', { skip: !postgres && 'no PostgreSQL' }, () => {
  let previous: PreviousRelease;
  let ownOrg: OwnOrg;
  let installation: Installation;

  before(async () => {
    previous = await findPreviousRelease();
    ownOrg = await startOwnOrg();
    installation = await createInstallation({ DATABASE_URL: postgres?.url }, ownOrg);
  });
  after(async () => {
    await installation.remove();
    await ownOrg.close();
    await previous.remove();
    await postgres?.stop();
  });

  test('runs on the newest schema, and neither way loses a key', async (context) => {
    context.diagnostic(`the previous release is ${previous.name}`);
    const done: { write: KeyedWrite; answer: Answer }[] = [];
    for (const sources of [undefined, previous.folder, undefined]) {
      const gateway = await installation.start({}, sources);
      const { console } = await installation.credentials();
      for (const { write, answer } of done) await assertReplays(write, gateway.url, answer);
      const writes = await new KeyedWrites(ownOrg.org, console).oneOfEach(gateway.url);
      for (const write of Object.values(writes)) {
        const answer = await write.send(gateway.url);
        write.assertDone(answer);
        assert.equal(isReplay(answer), false);
        done.push({ write, answer });
      }
      gateway.signal('SIGTERM');
      assert.deepEqual(await gateway.ended, { code: 0, signal: null });
    }
    for (const { write } of done) await write.assertCarriedOut();
  });
});
