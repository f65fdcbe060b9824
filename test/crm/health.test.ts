import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, it, mock } from 'node:test';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { aCall, type CrmHarness, hasCode, quoteFor, type Replica, startCrmHarness } from './crm-harness.ts';

let harness: CrmHarness;
beforeEach(async () => {
  harness = await startCrmHarness({ timeoutMs: 1000 }, { userName: 'Gateway Integration' });
});
afterEach(async () => {
  mock.timers.reset();
  await harness.stop();
});

const down = { connected: false, user: null };

function assertConnected(state: Awaited<ReturnType<Replica['crm']['health']['check']>>): void {
  assert.equal(state.connected, true);
  assert.match(String(state.user?.Id), /^005[A-Za-z0-9]{15}$/);
  assert.equal(state.user?.Name, 'Gateway Integration');
}

it('names the integration user, with one probe for all callers and all replicas', async () => {
  const other = harness.addReplica();
  const states = await Promise.all(Array.from({ length: 50 }, () => harness.crm.health.check()));
  for (const state of states) assertConnected(state);
  assertConnected(await other.crm.health.check());
  assert.equal(await harness.org.calls('userinfo'), 1);
});

it('hears from calls that the CRM is lost, and that it is back', async () => {
  const { crm, org, memberId } = harness;
  assertConnected(await crm.health.check());
  await org.fault({ kind: 'down' });
  await assert.rejects(crm.records.find(quote, randomUUID(), aCall()), hasCode('crm_unavailable'));
  assert.deepEqual(await crm.health.check(), { ...down, reason: 'network' });
  await org.heal();
  await crm.records.create(quote, randomUUID(), quoteFor(memberId), aCall());
  assertConnected(await crm.health.check());
  assert.equal(await org.calls('userinfo'), 1);
});

it('has used up the quota while the CRM refuses calls for it', async () => {
  const { crm, org, memberId } = harness;
  await crm.records.create(quote, randomUUID(), quoteFor(memberId), aCall());
  const { quota } = await crm.health.check();
  assert.ok(quota !== undefined && quota.used < quota.limit);
  await org.fault({ kind: 'dailyLimit' }, { path: '/services/data/' });
  await assert.rejects(crm.records.find(quote, randomUUID(), aCall()), hasCode('crm_quota_exhausted'));
  assert.deepEqual((await crm.health.check()).quota, { ...quota, used: quota.limit });
});

it('takes a refusal of a record for a sign that the CRM is there', async () => {
  const { crm } = harness;
  const creation = crm.records.create(quote, randomUUID(), quoteFor(randomUUID()), aCall());
  await assert.rejects(creation, hasCode('member_not_found'));
  assertConnected(await crm.health.check());
});

it('is not connected while there is no token, without asking for it more often than the back-off allows', async () => {
  await harness.org.fault({ kind: 'tokenError', error: 'invalid_grant', description: 'user is locked' });
  const told = {
    reason: 'sign_in',
    advice: 'The integration user is locked. Unlock it in the org.',
    sign_in: { error: 'invalid_grant', error_description: 'user is locked' },
  };
  for (let round = 0; round < 5; round++)
    assert.deepEqual(await harness.crm.health.check(), { ...down, ...told });
  assert.equal(await harness.org.calls('token'), 1);
  assert.equal(await harness.org.calls('userinfo'), 0);
});

it('says what to fix where a refresh fails for good, though the token of before still works', async () => {
  const { crm, org } = harness;
  assertConnected(await crm.health.check());
  await org.fault({ kind: 'tokenError', error: 'invalid_grant', description: 'invalid audience' });
  const record = JSON.parse((await harness.cache.get('crm_token:dev')) as string);
  const expires_at = new Date(Date.now() + 299_000).toISOString();
  await harness.cache.set('crm_token:dev', JSON.stringify({ ...record, expires_at }), 60_000);
  for (let round = 0; round < 5; round++) await crm.tokens.refreshIfDue();
  assert.equal(await org.calls('token'), 2);
  const other = harness.addReplica();
  assertConnected(await other.crm.health.check());
  assert.match((await other.crm.health.check()).advice ?? '', /audience is wrong. Set crm\.loginUrl/);
});

it('probes every 2 s while not connected and every 30 s while connected', async () => {
  const { crm, org } = harness;
  await crm.tokens.getToken(aCall());
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  await org.fault({ kind: 'down' }, { operation: 'userinfo' });
  const probed = async (afterMs: number) => {
    mock.timers.tick(afterMs);
    const before = await org.calls('userinfo');
    await crm.health.check();
    await crm.health.check();
    return (await org.calls('userinfo')) - before;
  };
  // Up to 250 ms between the clocks are jitter.
  assert.equal(await probed(0), 1);
  assert.equal(await probed(1500), 0);
  assert.equal(await probed(750), 1);
  await org.heal();
  assert.equal(await probed(2250), 1);
  assert.equal(await probed(29_500), 0);
  assert.equal(await probed(750), 1);
});

it('probes as often where the clock is set back, and takes no result from before that', async () => {
  const { crm, org } = harness;
  const other = harness.addReplica();
  const setBack = () => {
    const earlier = Date.now() - 3_600_000;
    mock.timers.reset();
    mock.timers.enable({ apis: ['Date'], now: earlier });
  };
  await org.fault({ kind: 'down' }, { operation: 'userinfo' });
  assert.equal((await crm.health.check()).connected, false);
  await org.heal();
  setBack();
  assert.equal((await crm.health.check()).connected, false);
  mock.timers.tick(2500);
  assertConnected(await crm.health.check());
  setBack();
  assertConnected(await crm.health.check());
  assert.equal(await org.calls('userinfo'), 2);
  assertConnected(await other.crm.health.check());
  assert.equal(await org.calls('userinfo'), 3);
  mock.timers.tick(30_500);
  assertConnected(await crm.health.check());
  assert.equal(await org.calls('userinfo'), 4);
});

it('gets through while all slots are taken', async () => {
  const replica = harness.addReplica({ maxConcurrency: 1, timeoutMs: 10_000 });
  const fault = await harness.org.fault({ kind: 'hold', stage: 'before' }, { operation: 'query' });
  const held = replica.crm.records.find(quote, randomUUID(), aCall());
  await harness.org.struck(fault);
  assertConnected(await replica.crm.health.check());
  await harness.org.release(fault);
  await held;
});

it('replaces a token that userinfo refuses', async () => {
  await harness.crm.tokens.getToken(aCall());
  await harness.org.revokeTokens();
  assertConnected(await harness.crm.health.check());
  assert.equal(await harness.org.calls('token'), 2);
});

it('asks the identity URL where userinfo is not for the app', async () => {
  const refusal = {
    kind: 'error',
    status: 403,
    errorCode: '',
    message: 'Missing_OAuth_Scope',
    contentType: 'text/html',
  };
  await harness.org.fault(refusal, { operation: 'userinfo' });
  assertConnected(await harness.crm.health.check());
});

it('gives up on a CRM that hangs', async () => {
  await harness.org.fault({ kind: 'hang' });
  assert.deepEqual(await harness.crm.health.check(), { ...down, reason: 'network' });
});

it('is not connected while data calls fail, though signing in works', async () => {
  const { crm, org } = harness;
  const other = harness.addReplica();
  assertConnected(await crm.health.check());
  const refusal = { status: 403, errorCode: 'API_DISABLED_FOR_ORG', message: 'API is not enabled' };
  await org.fault({ kind: 'error', ...refusal }, { operation: 'query' });
  await assert.rejects(crm.records.find(quote, randomUUID(), aCall()), hasCode('crm_error'));
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  for (const state of [crm.health, other.crm.health]) {
    assert.deepEqual(
      { ...(await state.check()), quota: undefined },
      { ...down, reason: 'data', quota: undefined },
    );
    mock.timers.tick(6000);
    assert.equal((await state.check()).reason, 'data');
  }
  await org.heal();
  mock.timers.tick(6000);
  assertConnected(await crm.health.check());
});

it('is not connected while the org does not offer the version, and asks for it seldom', async () => {
  const { crm, org } = harness;
  await crm.records.find(quote, randomUUID(), aCall());
  await org.change({ newestVersion: 60 });
  for (let read = 0; read < 10; read++)
    await assert.rejects(crm.records.find(quote, randomUUID(), aCall()), /doesn't offer version 68\.0/);
  assert.equal((await crm.health.check()).reason, 'version');
  assert.equal(await org.calls('versions'), 1);
});
