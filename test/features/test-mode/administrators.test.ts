import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { documentedRoutes } from '../../../src/app/routes.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { type Answer, makeConsumer, sendTo } from './worlds.ts';

const path = '/v1/admin/consumers';
const permissions = [
  { resource: 'consumers' as const, actions: ['read' as const, 'write' as const, 'delete' as const] },
  { resource: 'quotes' as const, actions: ['read' as const] },
];
/** Consumers of a test administrator at most. */
const most = 50;

describe('test administrators', () => {
  const gateway = useGateway();

  const send = (as: Credentials, method: string, target: string, body?: object) =>
    sendTo(gateway, target, { as, method, ...(body && { body }) });
  const administrator = () => makeConsumer(gateway, { permissions });
  const create = (as: Credentials) => send(as, 'POST', path, { name: 'made', permissions });
  async function made(as: Credentials): Promise<Credentials> {
    const { status, body } = await create(as);
    assert.equal(status, 201, JSON.stringify(body));
    return body as unknown as Credentials;
  }
  const idsIn = async (as: Credentials, target: string, field: string) => {
    const { body } = await send(as, 'GET', `${target}?limit=200`);
    return new Set((body['data'] as Answer[]).map((one) => one[field] as string));
  };

  /** All that can be asked for about a consumer, by the routes that there are. */
  const operations = documentedRoutes()
    .filter((route) => route.path.startsWith(`${path}/:id`))
    .map(({ method, path: target }) => ({ method, suffix: target.slice(`${path}/:id`.length) }));

  it('manage what they and theirs have made, and nothing else exists for them', async () => {
    const [boss, neighbour] = [await administrator(), await administrator()];
    const byOperator = await makeConsumer(gateway, { permissions });
    const child = await made(boss);
    const [grandchild, sibling] = [await made(child), await made(boss)];
    const others = await made(neighbour);
    const strangers: [Credentials, Credentials[]][] = [
      [boss, [neighbour, others, byOperator]],
      [child, [boss, sibling, neighbour, others]],
      [grandchild, [boss, child, sibling]],
      [neighbour, [boss, child, grandchild, sibling]],
    ];
    assert.deepEqual(
      new Set(operations.map(({ method }) => method)),
      new Set(['DELETE', 'GET', 'PATCH', 'POST']),
    );
    for (const [as, all] of strangers)
      for (const { id } of all)
        for (const { method, suffix } of operations) {
          const { status, body } = await send(
            as,
            method,
            `${path}/${id}${suffix}`,
            method === 'PATCH' ? { name: 'taken' } : undefined,
          );
          assert.deepEqual([status, body.code], [404, 'not_found'], `${method} ${suffix}`);
        }
    assert.deepEqual(
      await idsIn(boss, path, 'id'),
      new Set([boss, child, grandchild, sibling].map(({ id }) => id)),
    );
    assert.deepEqual(await idsIn(grandchild, path, 'id'), new Set([grandchild.id]));
    const family = new Set([neighbour.id, others.id]);
    const callers = await idsIn(neighbour, '/v1/admin/auth-attempts', 'consumer_id');
    assert.ok(callers.size > 0 && callers.isSubsetOf(family));
    const { body } = await send(neighbour, 'GET', '/v1/admin/audit-events');
    const events = body['data'] as { actor: Answer; target: Answer }[];
    assert.deepEqual(new Set(events.map(({ actor }) => actor.id)), new Set([neighbour.id]));

    for (const { method, suffix } of operations.toSorted((a) => (a.method === 'DELETE' ? 1 : -1))) {
      const change = method === 'PATCH' ? { name: 'mine' } : undefined;
      const { status } = await send(boss, method, `${path}/${grandchild.id}${suffix}`, change);
      assert.ok(status < 300, `${method} ${suffix}: ${status}`);
    }
    assert.equal((await send(boss, 'POST', `${path}/${boss.id}/rotate`)).status, 200);
    assert.equal((await send(gateway.admin, 'POST', `${path}/${others.id}/rotate`)).status, 200);
  });

  it(`have ${most} consumers that are not revoked, with all that those have made`, async () => {
    const boss = await administrator();
    const child = await made(boss);
    // Not all at once: where a secret changes all the time, the service gives up after some tries.
    const all: Awaited<ReturnType<typeof create>>[] = [];
    while (all.length < most + 10) {
      const makers = [boss, child, boss, child, boss, child];
      all.push(...(await Promise.all(makers.map((maker) => create(maker)))));
    }
    const refused = all.filter(({ status }) => status !== 201);
    assert.deepEqual(
      refused.map(({ status, body }) => [status, body.code]),
      Array.from({ length: 11 }, () => [409, 'conflict']),
    );
    const one = all.find(({ status }) => status === 201)?.body as unknown as Credentials;
    for (const as of [boss, child, one]) assert.equal((await create(as)).status, 409);
    assert.equal((await idsIn(boss, path, 'id')).size, most + 1);
    assert.equal((await send(boss, 'DELETE', `${path}/${one.id}`)).status, 204);
    const next = await made(child);
    assert.equal((await create(boss)).status, 409);
    // The family stays what it is without its first one.
    assert.equal((await send(gateway.admin, 'DELETE', `${path}/${boss.id}`)).status, 204);
    for (const as of [child, next]) assert.equal((await create(as)).status, 409);
    // Others have places of their own, and operators as many as they like.
    await made(await administrator());
  });
});
