import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { Authority } from '../../../src/identity/consumers/authority.ts';
import type { Consumers } from '../../../src/identity/consumers/consumers.ts';
import { commandLine } from '../../../src/identity/consumers/record-changes.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createTestConsumers, createTestSecrets, readQuotes } from './fixture.ts';

const manage = [{ resource: 'consumers', actions: ['read', 'write', 'delete'] }, ...readQuotes];
const hasCode = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;
const [denied, invalid] = [hasCode('permission_denied'), hasCode('invalid_credentials')];

describe('a change by a caller that is changed meanwhile', () => {
  let store: Awaited<ReturnType<typeof createTestSecrets>>;
  let beforeWrite: (() => Promise<unknown>) | undefined;
  let here: Consumers;
  /** Another replica: what is written here reaches it only when it reads. */
  let there: Consumers;
  let boss: string;
  let target: string;
  let authority: Authority;

  beforeEach(async () => {
    store = await createTestSecrets();
    const unwatched = { ...store.secrets, watch: () => () => undefined };
    const interrupted: typeof unwatched = {
      ...unwatched,
      write: async (...args) => {
        const interrupt = beforeWrite;
        beforeWrite = undefined;
        await interrupt?.();
        return unwatched.write(...args);
      },
    };
    here = createTestConsumers(unwatched).consumers;
    boss = (await here.store.create({ name: 'boss', permissions: manage })).consumer.id;
    target = (await here.store.create({ name: 'shop', permissions: readQuotes })).consumer.id;
    await here.start();
    there = createTestConsumers(interrupted).consumers;
    await there.start();
    await there.directory.refresh();
    authority = { callerId: boss, author: commandLine() };
  });
  afterEach(async () => {
    await there.stop();
    await here.stop();
    await store.remove();
  });

  const everyOperation = [
    () => there.administration.create({ name: 'twin', permissions: readQuotes }, authority),
    () => there.administration.change(target, { name: 'other' }, authority),
    () => there.administration.rotate(target, 1, authority),
    () => there.administration.revoke(target, authority),
  ];

  it('is bound by what the caller has now', async () => {
    const validUntil = '2098-01-01T00:00:00.000Z';
    await here.administration.change(boss, { validUntil, allowedAddresses: ['192.0.2.1'] });
    assert.equal(there.directory.consumer(boss)?.validUntil, undefined);
    for (const operation of everyOperation) await assert.rejects(operation(), denied);
    const wider = { validUntil: null, allowedAddresses: [] };
    await assert.rejects(there.administration.change(boss, wider, authority), denied);
    assert.equal((await here.administration.find(boss)).validUntil, validUntil);
  });

  it('is refused to who may not manage consumers any more', async () => {
    await here.administration.change(boss, { permissions: readQuotes });
    for (const operation of everyOperation) await assert.rejects(operation(), denied);
    await assert.rejects(there.administration.change(boss, { permissions: manage }, authority), denied);
  });

  for (const change of [{ enabled: false }, { validUntil: '2020-01-01T00:00:00.000Z' }])
    it(`is refused to a caller with ${JSON.stringify(change)}, which cannot undo it`, async () => {
      await here.administration.change(boss, change);
      for (const operation of everyOperation) await assert.rejects(operation(), invalid);
      const undo = { enabled: true, validUntil: null };
      await assert.rejects(there.administration.change(boss, undo, authority), invalid);
    });

  it('is refused to a caller that was revoked', async () => {
    await here.administration.revoke(boss);
    for (const operation of everyOperation) await assert.rejects(operation(), invalid);
  });

  it('is checked again with the record that another process wrote in between', async () => {
    const more = [...readQuotes, { resource: 'members', actions: ['read'] }];
    for (const operation of [
      () => there.administration.change(target, { name: 'other' }, authority),
      () => there.administration.rotate(target, 1, authority),
      () => there.administration.revoke(target, authority),
    ]) {
      await here.administration.change(target, { permissions: readQuotes });
      beforeWrite = () => here.administration.change(target, { permissions: more });
      await assert.rejects(operation(), denied);
      const { name, credentials, permissions } = await here.administration.find(target);
      assert.deepEqual([name, credentials.length, permissions.length], ['shop', 1, 2]);
    }
  });

  it('of itself is checked with the record that it replaces', async () => {
    beforeWrite = () => here.administration.change(boss, { rateLimitPerMinute: 10 });
    const wider = there.administration.change(boss, { rateLimitPerMinute: 20 }, authority);
    await assert.rejects(wider, denied);
    assert.equal((await here.administration.find(boss)).rateLimitPerMinute, 10);
  });
});
