import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { guardAgainstLoss } from '../../src/identity/consumers/loss-guard.ts';
import { consumerSecretName } from '../../src/identity/consumers/stored-consumer.ts';
import { Problem } from '../../src/platform/base/problem.ts';
import { type SecretsManager, SecretsUnavailable } from '../../src/platform/secrets/secrets-manager.ts';
import { createTestConsumers, readQuotes } from '../identity/consumers/fixture.ts';

/**
 * What the gateway makes of a secrets manager that has lost its content, whichever it is. `makeStore` makes an empty
 * store; each call of what it returns makes another client of it.
 */
export function lostSecretsConformance(name: string, makeStore: () => () => SecretsManager): void {
  describe(`a secrets manager that has lost everything: ${name}`, () => {
    const open: SecretsManager[] = [];
    after(async () => {
      for (const manager of open) await manager.close();
    });
    /** A gateway with some consumers, and an operator's own access to what it works on. */
    const start = async () => {
      const connect = makeStore();
      const [operator, client] = [connect(), connect()];
      open.push(operator, client);
      const secrets = guardAgainstLoss(client);
      const { consumers } = createTestConsumers(secrets);
      const pairs = await Promise.all(
        ['a', 'b', 'c'].map((each) => consumers.store.create({ name: each, permissions: readQuotes })),
      );
      await operator.write('webhooks/crm', 'whsec_x', null);
      assert.equal((await secrets.read('webhooks/crm'))?.value, 'whsec_x');
      await consumers.start();
      await consumers.directory.refresh();
      const results = async () =>
        Promise.all(pairs.map(async (pair) => (await consumers.authenticate(pair)).result));
      const ids = pairs.map(({ consumer }) => consumer.id);
      const names = [...ids.map(consumerSecretName), 'keys/pepper', 'keys/cursor', 'webhooks/crm'];
      return { consumers, operator, secrets, results, ids, names };
    };
    const remove = async (operator: SecretsManager, secret: string) => {
      const found = await operator.read(secret);
      await operator.delete(secret, found?.version ?? '');
      return found?.value ?? '';
    };
    const accepted = ['accepted', 'accepted', 'accepted'];

    it('counts as unavailable until its secrets are back, and changes nothing meanwhile', async () => {
      const { consumers, operator, secrets, results, ids, names } = await start();
      const { directory, administration } = consumers;
      const values: string[] = [];
      for (const secret of names) values.push(await remove(operator, secret));
      await directory.refresh();
      assert.deepEqual(await results(), accepted);
      const { connected, consumers: count } = directory.status();
      assert.deepEqual([connected, count], [false, 3]);
      // Others that see a change, and callers with a key that is not known, revoke nobody either.
      await directory.readAgain(ids[0] ?? '');
      assert.deepEqual(await results(), accepted);
      await assert.rejects(secrets.read('webhooks/crm'), SecretsUnavailable);
      const isUnavailable = (error: unknown) =>
        error instanceof Problem && error.code === 'secrets_unavailable';
      await assert.rejects(administration.rotate(ids[0] ?? ''), isUnavailable);
      await assert.rejects(administration.revoke(ids[0] ?? ''), isUnavailable);
      await assert.rejects(administration.create({ name: 'd', permissions: readQuotes }), isUnavailable);
      assert.equal((await administration.find(ids[0] ?? '')).name, 'a');
      assert.deepEqual(await operator.list('consumers'), []);

      for (const [i, secret] of names.entries()) await operator.write(secret, values[i] ?? '', null);
      await directory.refresh();
      assert.deepEqual(await results(), accepted);
      assert.equal(directory.status().connected, true);
      assert.equal((await secrets.read('webhooks/crm'))?.value, 'whsec_x');
      await administration.rotate(ids[0] ?? '');
      await consumers.stop();
    });

    it('is not one that has lost single secrets: those are gone', async () => {
      const { consumers, operator, secrets, results, ids } = await start();
      await remove(operator, consumerSecretName(ids[0] ?? ''));
      await remove(operator, 'webhooks/crm');
      await consumers.directory.refresh();
      assert.deepEqual(await results(), ['revoked', 'accepted', 'accepted']);
      assert.equal(consumers.directory.status().connected, true);
      assert.equal(await secrets.read('webhooks/crm'), undefined);
      await consumers.stop();
    });

    it('is not one whose last consumer another process has revoked', async () => {
      const { consumers, operator, results, ids } = await start();
      const elsewhere = createTestConsumers(operator).consumers;
      for (const id of ids) await elsewhere.administration.revoke(id);
      await consumers.directory.refresh();
      assert.deepEqual(await results(), ['revoked', 'revoked', 'revoked']);
      const { connected, consumers: count } = consumers.directory.status();
      assert.deepEqual([connected, count], [true, 0]);
      await consumers.stop();
    });
  });
}
