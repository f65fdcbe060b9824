import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CrmTime } from '../../src/crm/rest/rest-client.ts';

test('the time is that of the latest answer, and goes on from there; an answer without a date changes nothing', () => {
  const time = new CrmTime();
  assert.ok(Math.abs(time.now() - Date.now()) < 60_000);
  for (const date of ['Fri, 04 Dec 2026 19:00:00 GMT', 'Thu, 01 Jan 1998 00:00:00 GMT']) {
    time.note({ headers: { date } });
    for (const headers of [{}, { date: 'soon' }]) time.note({ headers });
    const passedMs = time.now() - Date.parse(date);
    assert.ok(passedMs >= 0 && passedMs < 60_000);
  }
});
