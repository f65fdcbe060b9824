import assert from 'node:assert/strict';
import { afterEach, beforeEach, it } from 'node:test';
import type { SecretsManager } from '../../../../../src/platform/secrets/secrets-manager.ts';
import { partnerCredentials } from '../../../../support/dining-partner.ts';
import { eventually } from '../../../../support/eventually.ts';
import { newAttempt, problemOf } from '../conformance.ts';
import { type DiningHarness, newCall, newOrder, startDiningHarness } from './dining-harness.ts';

let harness: DiningHarness;
beforeEach(async () => {
  harness = await startDiningHarness();
});
afterEach(() => harness.close());

const book = () => harness.connector.create(newOrder(), newAttempt(), newCall());
const alarms = () => harness.logLines.filter(({ level }) => level === 'error');

async function replaceSecret(secrets: SecretsManager, value: string): Promise<void> {
  const secret = await secrets.read('dining/dev/password');
  await secrets.write('dining/dev/password', value, secret?.version ?? null);
}

async function health(wanted: (state: object) => boolean): Promise<object> {
  return eventually(async () => {
    const state = await harness.connector.checkHealth();
    assert.ok(wanted(state), JSON.stringify(state));
    return state;
  });
}

it('takes up a password that was rotated, at the first refusal of the old one', async () => {
  await book();
  await replaceSecret(harness.secrets, 'a new password');
  await harness.partner.changePassword('a new password');
  const both = await Promise.all([book(), book()]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ['confirmed', 'confirmed'],
  );
  assert.deepEqual(alarms(), []);
});

it('reports once that the credentials are refused, in log and health, until they work again', async () => {
  await harness.partner.set({ quirks: ['openHealthCheck'] });
  await book();
  assert.deepEqual(await harness.connector.checkHealth(), { connected: true });
  await harness.partner.changePassword('ended');
  for (const _ of [1, 2]) assert.equal((await problemOf(book())).code, 'partner_error');
  assert.equal(alarms().length, 1);
  assert.match(alarms()[0]?.message ?? '', /renew/);
  assert.deepEqual(await harness.connector.checkHealth(), { connected: false, reason: 'credentials' });
  await replaceSecret(harness.secrets, 'ended');
  await book();
  assert.deepEqual(await health((state) => 'connected' in state && state.connected === true), {
    connected: true,
  });
  assert.doesNotMatch(JSON.stringify(harness.logLines), new RegExp(partnerCredentials.password));
});

it('names the secret that is missing', async () => {
  const secret = await harness.secrets.read('dining/dev/password');
  await harness.secrets.delete('dining/dev/password', secret?.version ?? '');
  assert.equal((await problemOf(book())).code, 'partner_error');
  assert.match(JSON.stringify(alarms()), /the secret dining\/dev\/password .* is missing/);
});

it('measures every call by operation and outcome, and never by what was asked', async () => {
  await book();
  await harness.partner.arm({
    match: { operation: 'CreateBooking' },
    effect: { kind: 'error', status: 400 },
  });
  await problemOf(book());
  const text = await harness.metrics.registry.getSingleMetricAsString(
    'handoff_partner_call_duration_seconds',
  );
  const count = (operation: string, outcome: string) =>
    `_count{partner="dining",operation="${operation}",outcome="${outcome}"}`;
  assert.ok(text.includes(`${count('BatchAvailabilityLookup', 'ok')} 2`), text);
  assert.ok(text.includes(`${count('CreateBooking', 'ok')} 1`));
  assert.ok(text.includes(`${count('CreateBooking', 'invalid')} 1`));
});
