import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { DiningPartner, partnerCredentials, startOwnPartner } from '../../support/dining-partner.ts';
import { createRequest, post, startInDays } from './client.ts';

const MAIN = join(import.meta.dirname, '../../../simulators/dining/main.ts');
let directory: string;
before(() => {
  directory = mkdtempSync(join(tmpdir(), 'simulated-partner-'));
});
after(() => rmSync(directory, { recursive: true, force: true }));

async function withPartner<T>(dataFile: string, work: (partner: DiningPartner) => Promise<T>): Promise<T> {
  const own = await startOwnPartner({ dataFile });
  try {
    return await work(own.partner);
  } finally {
    await own.close();
  }
}

async function start(...args: string[]): Promise<{ child: ChildProcess; partner: DiningPartner }> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, partner: new DiningPartner(/http:\S+/.exec(line.toString())?.[0] ?? '') };
}

it('a killed program keeps all that it has answered for, tokens included', async () => {
  const password = join(directory, 'password');
  writeFileSync(password, `${partnerCredentials.password}\n`);
  const data = join(directory, 'made', 'partner.jsonl');
  const args = ['--username', partnerCredentials.username, '--password-file', password, '--data', data];
  const request = createRequest();
  const first = await start(...args);
  const { text } = await post(first.partner.url, 'CreateBooking', request);
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  const second = await start(...args);
  assert.equal((await post(second.partner.url, 'CreateBooking', request)).text, text);
  assert.equal((await second.partner.bookings()).length, 1);
  second.child.kill('SIGTERM');
  assert.deepEqual(await once(second.child, 'exit'), [0, null]);
});

it('a torn last line is cut off, and a damaged file refused', async () => {
  const file = join(directory, 'torn.jsonl');
  await withPartner(file, async ({ url }) => void (await post(url, 'CreateBooking', createRequest())));
  appendFileSync(file, '{"booking":{"id":"CO-');
  await withPartner(file, async (partner) => {
    assert.equal((await partner.bookings()).length, 1);
    await post(partner.url, 'CreateBooking', createRequest());
  });
  await withPartner(file, async (partner) => assert.equal((await partner.bookings()).length, 2));
  writeFileSync(file, `nonsense\n${readFileSync(file, 'utf8')}`);
  await assert.rejects(startOwnPartner({ dataFile: file }), /line 1 is damaged/);
});

it('what was changed, moved and cleared stays so, and no id is given twice', async () => {
  const file = join(directory, 'changed.jsonl');
  const request = createRequest();
  const ids = await withPartner(file, async (partner) => {
    const made = (await post(partner.url, 'CreateBooking', request)).body.booking.booking_id;
    await partner.set({ quirks: ['newIdOnReschedule'] });
    const slot = { start_sec: String(startInDays(20)), duration_sec: '3600' };
    const moved = await post(partner.url, 'UpdateBooking', { booking: { booking_id: made, slot } });
    return { made, moved: moved.body.booking.booking_id };
  });
  const next = await withPartner(file, async (partner) => {
    const bookings = await partner.bookings();
    assert.deepEqual(
      bookings.map((each) => [each.booking_id, each.duration_sec]),
      [[ids.moved, 3600]],
    );
    const repeated = await post(partner.url, 'CreateBooking', request);
    assert.equal(repeated.body.booking.booking_id, ids.made, 'the answer to the token stays');
    await partner.reset();
    assert.equal(
      (await post(partner.url, 'CreateBooking', createRequest())).body.booking.booking_id,
      'CO-50003',
    );
    await partner.reset();
    return 'CO-50004';
  });
  await withPartner(file, async (partner) => {
    assert.deepEqual(await partner.bookings(), []);
    assert.equal((await post(partner.url, 'CreateBooking', request)).body.booking.booking_id, next);
  });
});

it('a file that is mostly history is rewritten, and holds the same', async () => {
  const file = join(directory, 'long.jsonl');
  const request = createRequest();
  const { booking_id } = await withPartner(file, async (partner) => {
    const { booking } = (await post(partner.url, 'CreateBooking', request)).body;
    return booking;
  });
  const line = readFileSync(file, 'utf8');
  writeFileSync(file, line.repeat(1100));
  await withPartner(file, async (partner) => {
    assert.equal((await partner.bookings()).length, 1);
    assert.equal((await post(partner.url, 'CreateBooking', request)).body.booking.booking_id, booking_id);
  });
  assert.ok(readFileSync(file, 'utf8').split('\n').length < 10);
});
