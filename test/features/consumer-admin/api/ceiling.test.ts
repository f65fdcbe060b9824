import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { compileNetworks } from '../../../../src/platform/base/networks.ts';
import { type Certificate, type Certificates, createCertificates } from '../../../support/certificates.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';
import { createSecureClient, type SecureAnswer, type SecureClient } from '../../../support/tls-client.ts';

const path = '/v1/admin/consumers';
const manage = {
  ...{ resource: 'consumers', actions: ['read', 'write', 'delete'] },
  ...{ records: 'all' as const, approval: false },
};
const readQuotes = { resource: 'quotes', actions: ['read'] };
const ownQuotes = { resource: 'quotes', actions: ['read', 'write'], records: 'own' };

interface Record {
  permissions: { resource: string; actions: string[]; records: 'all' | 'own'; approval?: boolean }[];
  validUntil: string | null;
  rateLimitPerMinute: number | null;
  allowedAddresses: string[];
  certificateFingerprints: string[];
}

/** Everything that can be done with a consumer, without giving it more. */
const operations = [
  ['PATCH', '', { name: 'other' }],
  ['PATCH', '', { enabled: false }],
  ['PATCH', '', { enabled: true }],
  ['POST', '/rotate', { graceWindowHours: 0 }],
  ['DELETE', '', undefined],
] as const;

describe('an administrator with own records', () => {
  let gateway: TestGateway;
  let boss: Credentials;
  let other: Credentials;

  before(async () => {
    // The attempts are read until they are stored.
    gateway = await startGateway({ RATE_LIMIT_PER_MINUTE: '0' });
    boss = await make(gateway.admin, manage, ownQuotes);
    other = await make(gateway.admin, ownQuotes);
  });
  after(() => gateway.stop());

  const send = (as: Credentials, method: string, target: string, body?: object) =>
    gateway.request(target, { method, as, ...(body && { body }) });
  async function make(as: Credentials, ...permissions: object[]): Promise<Credentials> {
    const response = await send(as, 'POST', path, { name: 'made', permissions });
    const text = await response.text();
    assert.equal(response.status, 201, text);
    return JSON.parse(text) as Credentials;
  }
  const attemptOf = async (requestId: string) => {
    return eventually(
      async () => {
        const page = await send(
          gateway.admin,
          'GET',
          `/v1/admin/auth-attempts?consumer_id=${boss.id}&limit=200`,
        );
        const { data } = (await page.json()) as { data: { request_id: string; result: string }[] };
        const found = data.find(({ request_id }) => request_id === requestId);
        assert.ok(found, `no attempt by request ${requestId}`);
        return found.result;
      },
      { everyMs: 10 },
    );
  };

  test('manages no other consumer that has them, and each refusal is an attempt', async () => {
    const body = { trip_id: crypto.randomUUID(), member_id: gateway.org.memberId };
    const offer = { ...body, type: 'quote', result: { name: 'x', source: 'x', details: {} } };
    const made = await send(other, 'POST', '/api/v1/handoff', offer);
    assert.equal(made.status, 201, await made.text());
    const show = async () => (await send(gateway.admin, 'GET', `${path}/${other.id}`)).json();
    const { lastUsedAt: _, credentials: __, ...known } = (await show()) as { [field: string]: unknown };
    for (const [method, suffix, change] of operations) {
      const refused = await send(boss, method, `${path}/${other.id}${suffix}`, change);
      const { required, request_id } = await assertProblem(refused, 403, 'permission_denied');
      assert.deepEqual(required, { resource: 'quotes', action: 'read' });
      assert.equal(await attemptOf(request_id), 'permission_denied');
      const line = gateway.logLines.find(({ facts }) => facts['request_id'] === request_id);
      assert.equal(line?.facts['result'], 'permission_denied');
    }
    const { lastUsedAt: ___, credentials: ____, ...left } = (await show()) as { [field: string]: unknown };
    assert.deepEqual(left, known);
    const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
    const series = `handoff_consumer_failed_attempts_total{consumer_id="${boss.id}"}`;
    assert.match(metrics, new RegExp(`^${series.replace(/[{}]/g, '\\$&')} ${operations.length}$`, 'm'));
  });

  test('makes others with own records, which are none, and does not manage those either', async () => {
    const twin = await make(boss, manage, ownQuotes);
    const list = await send(twin, 'GET', '/v1/quotes');
    assert.deepEqual(((await list.json()) as { data: [] }).data, []);
    await assertProblem(await send(boss, 'POST', `${path}/${twin.id}/rotate`), 403, 'permission_denied');
    await assertProblem(await send(twin, 'POST', `${path}/${boss.id}/rotate`), 403, 'permission_denied');
  });

  test('gives own records to nobody who is there already, since that one may have some', async () => {
    const former = await make(gateway.admin, ownQuotes);
    const target = `${path}/${former.id}`;
    const without = { permissions: [manage] };
    assert.equal((await send(gateway.admin, 'PATCH', target, without)).status, 200);
    const rotated = await send(boss, 'POST', `${target}/rotate`);
    assert.equal(rotated.status, 200);
    const as = (await rotated.json()) as Credentials;
    for (const each of [boss, as]) {
      const given = await send(each, 'PATCH', target, { permissions: [manage, ownQuotes] });
      await assertProblem(given, 403, 'permission_denied');
    }
  });

  test('does not rotate itself with a pair that was rotated already', async () => {
    const leaked = await make(gateway.admin, manage);
    const rotate = (as: Credentials) =>
      send(as, 'POST', `${path}/${leaked.id}/rotate`, { graceWindowHours: 1 });
    const active = { ...leaked, ...((await (await rotate(leaked)).json()) as Credentials) };
    await assertProblem(await rotate(leaked), 403, 'permission_denied');
    assert.equal((await send(leaked, 'GET', path)).status, 200);
    const again = await rotate(active);
    assert.equal(again.status, 200, await again.text());
  });

  test('changes and rotates itself, and takes no more records', async () => {
    const target = `${path}/${boss.id}`;
    assert.equal((await send(boss, 'PATCH', target, { name: 'boss' })).status, 200);
    assert.equal((await send(boss, 'POST', `${target}/rotate`)).status, 200);
    const all = { permissions: [manage, { ...ownQuotes, records: 'all' }] };
    await assertProblem(await send(boss, 'PATCH', target, all), 403, 'permission_denied');
  });
});

/** Of each limit: what the caller has, what is as narrow at least, and what is not. */
const limits = {
  validUntil: {
    has: '2099-01-01T00:00:00.000Z',
    within: ['2099-01-01T01:00:00+01:00', '2098-12-31T23:59:59Z'],
    beyond: [null, '2099-01-01T00:00:00.001Z'],
  },
  rateLimitPerMinute: { has: 6000, within: [6000, 1], beyond: [null, 6001] },
  allowedAddresses: {
    has: ['127.0.0.0/9', '::ffff:127.128.0.0/105', '2001:db8::/32'],
    within: [['127.0.0.0/8'], ['::ffff:127.0.0.1'], ['2001:db8:1::/48', '127.9.9.9']],
    beyond: [[], ['126.0.0.0/7'], ['127.0.0.1', '128.0.0.1'], ['::/0'], ['2001:db8::/31']],
  },
  // All consumers together have 100 at most.
  crmShare: { has: 5, within: [5, 1], beyond: [6, 7] },
} as const;

describe('an administrator with a limit', () => {
  const gateway = useGateway();

  const send = (as: Credentials, method: string, target: string, body?: object) =>
    gateway.request(target, { method, as, ...(body && { body }) });
  const make = async (as: Credentials, change: object) => {
    const response = await send(as, 'POST', path, { name: 'made', permissions: [readQuotes], ...change });
    assert.equal(response.status, 201, `${JSON.stringify(change)}: ${await response.clone().text()}`);
    return (await response.json()) as Credentials;
  };

  for (const [field, { has, within, beyond }] of Object.entries(limits)) {
    const limitedBy = (value: unknown) => ({ [field]: value });
    const isRefused = async (response: Response) => {
      const { detail, required } = await assertProblem(response, 403, 'permission_denied');
      assert.match(detail, new RegExp(field));
      assert.equal(required, undefined);
    };
    const bossOf = () => make(gateway.admin, { permissions: [manage, readQuotes], ...limitedBy(has) });

    test(`${field}: neither widens its own, nor makes, changes or takes over a consumer with a wider one`, async () => {
      const boss = await bossOf();
      const narrow = await make(boss, limitedBy(has));
      for (const value of beyond) {
        const change = limitedBy(value);
        await isRefused(await send(boss, 'PATCH', `${path}/${boss.id}`, change));
        await isRefused(
          await send(boss, 'POST', path, { name: 'twin', permissions: [readQuotes], ...change }),
        );
        await isRefused(await send(boss, 'PATCH', `${path}/${narrow.id}`, change));
        const wide = await make(gateway.admin, change);
        const target = `${path}/${wide.id}`;
        const known = await (await send(gateway.admin, 'GET', target)).json();
        for (const [method, suffix, body] of operations)
          await isRefused(await send(boss, method, target + suffix, body));
        // Not even to narrow it: it could not have made it.
        await isRefused(await send(boss, 'PATCH', target, limitedBy(has)));
        assert.deepEqual(await (await send(gateway.admin, 'GET', target)).json(), known);
      }
      const { data } = (await (await send(gateway.admin, 'GET', `${path}?limit=200`)).json()) as {
        data: { name: string }[];
      };
      assert.ok(data.every(({ name }) => name !== 'twin'));
    });

    test(`${field}: does everything with those that are as narrow, itself too`, async () => {
      const boss = await bossOf();
      for (const value of within) {
        const { id } = await make(boss, limitedBy(value));
        for (const [method, suffix, body] of operations) {
          const done = await send(boss, method, `${path}/${id}${suffix}`, body);
          assert.ok(done.ok, `${method} ${suffix}: ${await done.text()}`);
        }
      }
      for (const change of [{ name: 'boss' }, limitedBy(within[0])]) {
        const changed = await send(boss, 'PATCH', `${path}/${boss.id}`, change);
        assert.equal(changed.status, 200, await changed.text());
      }
      assert.equal((await send(boss, 'POST', `${path}/${boss.id}/rotate`)).status, 200);
    });
  }

  test('crmShare: gives none at all to whom it likes, but makes no administrator that could give more', async () => {
    const boss = await make(gateway.admin, { permissions: [manage, readQuotes], crmShare: 5 });
    const plain = await make(boss, { crmShare: null });
    assert.equal((await send(boss, 'PATCH', `${path}/${plain.id}`, { name: 'other' })).status, 200);
    await make(boss, { permissions: [manage], mode: 'test' });
    for (const [method, target, change] of [
      ['POST', path, { name: 'twin', permissions: [manage] }],
      ['PATCH', `${path}/${plain.id}`, { permissions: [manage] }],
      ['PATCH', `${path}/${boss.id}`, { crmShare: null }],
      ['POST', path, { name: 'twin', permissions: [readQuotes], crmShare: 95 }],
    ] as const)
      await assertProblem(await send(boss, method, target, change), 403, 'permission_denied');
    assert.equal((await send(boss, 'DELETE', `${path}/${plain.id}`)).status, 204);
  });

  test('none of its own: it gives any limit', async () => {
    for (const [field, { beyond }] of Object.entries(limits)) {
      for (const value of beyond) await make(gateway.admin, { [field]: value });
    }
    await make(gateway.admin, { rateLimitPerMinute: 1_000_000 });
  });
});

describe('whatever a limited administrator does', () => {
  let certificates: Certificates;
  let authority: Certificate;
  let gateway: TestGateway;
  let clients: SecureClient[];

  before(async () => {
    certificates = await createCertificates();
    authority = await certificates.authority('authority');
    const server = await certificates.issue('server', authority);
    const own = [await certificates.issue('first', authority), await certificates.issue('second', authority)];
    prints = own.map(({ fingerprint }) => fingerprint.replaceAll(':', '').toLowerCase());
    gateway = await startGateway({
      ...{ TLS_CERT_FILE: server.certFile, TLS_KEY_FILE: server.keyFile },
      ...{ TLS_CLIENT_CA_FILE: authority.certFile, TLS_CLIENT_AUTH: 'optional' },
      RATE_LIMIT_PER_MINUTE: '0',
    });
    clients = own.map((certificate) => createSecureClient(gateway.url, authority, certificate));
  });
  after(async () => {
    for (const client of clients) client.close();
    await gateway.stop();
    await certificates.remove();
  });

  const fields = [
    'permissions',
    'validUntil',
    'rateLimitPerMinute',
    'allowedAddresses',
    'certificates',
  ] as const;
  const actions = fc.subarray(['read', 'write', 'delete'], { minLength: 1 });
  const permissionOn = (resource: string) =>
    fc.record({
      resource: fc.constant(resource),
      actions,
      records: resource === 'quotes' ? fc.constantFrom('all', 'own') : fc.constant('all'),
      approval: resource === 'quotes' ? fc.boolean() : fc.constant(false),
    });
  const permissions = fc
    .tuple(permissionOn('quotes'), permissionOn('members'), permissionOn('consumers'))
    .chain((all) => fc.subarray(all, { minLength: 1 }));
  const bounds = {
    validUntil: fc.constantFrom(null, '2098-01-01T00:00:00.000Z', '2099-01-01T00:00:00.000Z'),
    rateLimitPerMinute: fc.constantFrom(null, 50_000, 60_000),
    allowedAddresses: fc.constantFrom(
      ...[[], ['127.0.0.1'], ['127.0.0.0/8'], ['::ffff:127.0.0.0/104', '2001:db8::/32'], ['0.0.0.0/0']],
      ...[['126.0.0.0/8', '127.0.0.0/8'], ['::/0'], ['10.0.0.0/8']],
    ),
    // Of which of the two certificates.
    certificates: fc.constantFrom<number[]>([], [0], [1], [0, 1]),
  };
  /** A field or two: what differs in everything is refused for anything. */
  const some = fc
    .tuple(fc.record({ permissions, ...bounds }), fc.subarray([...fields], { minLength: 1, maxLength: 2 }))
    .map(([all, names]) => Object.fromEntries(names.map((name) => [name, all[name]])) as Partial<typeof all>);
  const step = fc.record({
    by: fc.nat(9),
    target: fc.nat(9),
    what: fc.oneof(
      fc.record({ create: some }),
      fc.record({ change: some }),
      fc.constant({ rotate: true }),
      fc.record({ change: fc.record({ enabled: fc.boolean() }) }),
    ),
  });
  type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
  type Wanted = typeof some extends fc.Arbitrary<infer S> ? S : never;

  const bodyOf = ({ certificates: list, ...rest }: Wanted & { enabled?: boolean }) => ({
    ...rest,
    ...(list && { certificateFingerprints: list.map((index) => prints[index]) }),
  });
  const ask = async (as: Credentials, method: string, target: string, body?: object) => {
    const options = { method, as, ...(body && { body }) };
    const first = (await clients[0]?.ask(target, options)) as SecureAnswer;
    // It may be bound to the other certificate.
    return first.status === 401 ? ((await clients[1]?.ask(target, options)) as SecureAnswer) : first;
  };
  const create = async (as: Credentials, body: object) => {
    const answer = await ask(as, 'POST', path, { name: 'x', ...body });
    return answer.status === 201 ? (JSON.parse(answer.body) as Credentials) : undefined;
  };
  const read = async ({ id }: Credentials) =>
    JSON.parse((await ask(gateway.admin, 'GET', `${path}/${id}`)).body) as Record;

  const perform = (as: Credentials, one: string, boss: Wanted, what: Step['what']) => {
    if ('create' in what) return ask(as, 'POST', path, { name: 'x', ...bodyOf({ ...boss, ...what.create }) });
    if ('rotate' in what) return ask(as, 'POST', `${one}/rotate`, { graceWindowHours: 1 });
    return ask(as, 'PATCH', one, bodyOf(what.change));
  };

  test('no consumer that it can use ever has more than it had', async () => {
    const outcomes = { done: 0, refused: 0 };
    const run = async (boss: Wanted, targets: Wanted[], steps: Step[]) => {
      const first = (await create(gateway.admin, bodyOf(boss))) as Credentials;
      const ceiling = await read(first);
      const usable = [first];
      const all = [first];
      for (const target of targets)
        all.push((await create(gateway.admin, bodyOf({ ...boss, ...target }))) as Credentials);
      const strangers = new Set(all.slice(1).map(({ id }) => id));
      for (const { by, target, what } of steps) {
        const as = usable[by % usable.length] as Credentials;
        const one = `${path}/${(all[target % all.length] as Credentials).id}`;
        const { status, body } = await perform(as, one, boss, what);
        outcomes[status < 300 ? 'done' : 'refused'] += 1;
        const made = status < 300 && !('change' in what) ? [JSON.parse(body) as Credentials] : [];
        usable.push(...made);
        if ('create' in what) all.push(...made);
        for (const each of usable) assertWithin(await read(each), ceiling, strangers.has(each.id));
      }
    };
    const bosses = fc.record({ permissions, ...bounds }).map((boss) => ({
      ...boss,
      permissions: [...boss.permissions.filter(({ resource }) => resource !== 'consumers'), manage],
    }));
    await fc.assert(
      fc.asyncProperty(
        bosses.filter(({ allowedAddresses }) => !allowedAddresses.includes('10.0.0.0/8')),
        fc.array(some, { minLength: 2, maxLength: 3 }),
        fc.array(step, { minLength: 5, maxLength: 10 }),
        run,
      ),
      { numRuns: 25 },
    );
    const { done, refused } = outcomes;
    assert.ok(done > 20 && refused > 20, `${done} done, ${refused} refused`);
  });
});

/** SHA-256 of the two certificates that there are. */
let prints: string[];

const addresses = [
  '127.0.0.1',
  '127.255.0.1',
  '126.0.0.1',
  '10.0.0.1',
  '8.8.8.8',
  '2001:db8::1',
  '::1',
  'fe80::1',
];

/** Written without what the service compares with. `isStranger`: it was there before, with records of its own. */
function assertWithin(record: Record, ceiling: Record, isStranger: boolean): void {
  const shown = JSON.stringify([record, ceiling]);
  for (const { resource, actions, records, approval } of record.permissions) {
    const had = ceiling.permissions.find((permission) => permission.resource === resource);
    const isMore = actions.some((action) => !had?.actions.includes(action));
    assert.ok(!isMore && (had?.records === 'all' || (records === 'own' && !isStranger)), shown);
    assert.ok(!had?.approval || approval, shown);
  }
  const [own, bound] = [reachOf(record), reachOf(ceiling)];
  assert.ok(own.until <= bound.until && own.rate <= bound.rate, shown);
  assert.ok(
    own.means.every((one) => bound.means.includes(one)),
    shown,
  );
}

/** Until when and how often it can be used, from which of the addresses, and with which certificates. */
function reachOf({ validUntil, rateLimitPerMinute, allowedAddresses, certificateFingerprints }: Record) {
  const isAnywhere = allowedAddresses.length === 0;
  const isAllowed = isAnywhere ? () => true : compileNetworks(allowedAddresses);
  const from = [...addresses.filter(isAllowed), ...(isAnywhere ? ['anywhere'] : [])];
  const needsNone = certificateFingerprints.length === 0;
  return {
    until: validUntil ?? '9999',
    rate: rateLimitPerMinute ?? Number.POSITIVE_INFINITY,
    means: [...from, ...(needsNone ? ['no certificate', ...prints] : certificateFingerprints)],
  };
}
