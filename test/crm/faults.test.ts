import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { Problem } from '../../src/platform/base/problem.ts';
import { booking, quote } from '../../src/records/quotes-and-bookings.ts';
import type { StoredRecord } from '../../src/records/records.ts';
import {
  aCall,
  aList,
  type CrmHarness,
  hasCode,
  quoteFor,
  type Replica,
  startCrmHarness,
  total,
} from './crm-harness.ts';

let harness: CrmHarness;
/** A replica for each test: none inherits an open breaker or a quota that was used up. */
let replica: Replica;
before(async () => {
  harness = await startCrmHarness();
});
beforeEach(() => {
  replica = harness.addReplica();
});
afterEach(() => harness.org.heal());
after(() => harness.stop());

/** For a test whose calls hang or are late: a new replica that waits for them only briefly. */
const useShortTimeout = () => {
  replica = harness.addReplica({ timeoutMs: 700 });
};

const create = (id = randomUUID(), budgetMs?: number) =>
  replica.crm.records.create(quote, id, quoteFor(harness.memberId), aCall(budgetMs));
const find = (id = randomUUID(), budgetMs?: number) => replica.crm.records.find(quote, id, aCall(budgetMs));
const apiError = (status: number, errorCode: string, message = 'x') => ({
  kind: 'error',
  status,
  errorCode,
  message,
});
/** Faults of the data API only: the token endpoint has tests of its own. */
const onData = { path: '/services/data/' };

describe('what each error means', () => {
  const table: [object, string, object?][] = [
    [apiError(400, 'INVALID_FIELD', "No such column 'X__c' on sobject of type Quote__c"), 'crm_error'],
    [apiError(400, 'INVALID_TYPE'), 'crm_error'],
    [apiError(404, 'NOT_FOUND', 'The requested resource does not exist'), 'crm_error'],
    [apiError(403, 'API_DISABLED_FOR_ORG'), 'crm_error'],
    [apiError(403, 'INSUFFICIENT_ACCESS_OR_READONLY'), 'crm_error'],
    [apiError(400, 'SOMETHING_NEW'), 'crm_error'],
    [apiError(400, 'ENTITY_IS_LOCKED'), 'conflict'],
    [
      apiError(403, 'REQUEST_LIMIT_EXCEEDED', 'TotalRequests Limit exceeded.'),
      'crm_quota_exhausted',
      { retryAfter: 600 },
    ],
    [apiError(501, 'UNKNOWN_EXCEPTION'), 'crm_error', { outcomeUnknown: true }],
    [{ kind: 'error', status: 400, errorCode: '', message: '<html>', contentType: 'text/html' }, 'crm_error'],
    [
      { kind: 'error', status: 302, errorCode: '', message: 'moved', contentType: 'text/html' },
      'crm_error',
      { outcomeUnknown: true },
    ],
    [
      { kind: 'error', status: 200, errorCode: '', message: '<html>', contentType: 'text/html' },
      'crm_error',
      { outcomeUnknown: true },
    ],
    [
      { kind: 'error', status: 201, errorCode: '', message: '{"id":7}', contentType: 'application/json' },
      'crm_error',
      { outcomeUnknown: true },
    ],
  ];
  for (const [effect, code, facts] of table) {
    const { status, errorCode } = effect as { status: number; errorCode: string };
    it(`${status} ${errorCode || 'without a code'} is ${code}, sent once`, async () => {
      const calls = await harness.org.calls('create');
      await harness.org.fault(effect, onData);
      await assert.rejects(create(), hasCode(code as Problem['code'], facts));
      assert.equal(await harness.org.calls('create'), calls + 1);
    });
  }
});

describe('a 500', () => {
  const faults = {
    'with a code': apiError(500, 'UNKNOWN_EXCEPTION'),
    'of HTML': { kind: 'error', status: 500, errorCode: '', message: '<html>', contentType: 'text/html' },
    'without a body': { kind: 'error', status: 500, errorCode: '', message: '', contentType: 'text/plain' },
  };
  const ofPart = { kind: 'partError', status: 500, errorCode: 'UNKNOWN_EXCEPTION', message: 'x' };
  const existing = async () => {
    const id = randomUUID();
    await replica.crm.records.create(quote, id, quoteFor(harness.memberId), aCall());
    return (await replica.crm.records.find(quote, id, aCall())) as StoredRecord;
  };
  const change = (record: StoredRecord, name: string) =>
    replica.crm.records.updateAndRead(quote, record, { name }, aCall());

  for (const [form, effect] of Object.entries(faults)) {
    it(`${form} is repeated at a read and at an insert, looked after at a change and a deletion`, async () => {
      const record = await existing();
      const id = record.values['id'] as string;
      for (const work of [
        async () => assert.deepEqual(await replica.crm.records.find(quote, id, aCall()), record),
        async () => assert.ok(await create()),
        async () => assert.equal((await change(record, 'Hotel 500'))?.values['name'], 'Hotel 500'),
        async () => replica.crm.records.remove(quote, record, aCall()),
      ]) {
        await harness.org.fault(effect, onData, 1);
        await work();
      }
      assert.equal(await replica.crm.records.find(quote, id, aCall()), undefined);
    });
  }

  it('inside a Composite call counts like one of its own', async () => {
    const record = await existing();
    const calls = await harness.org.calls('composite');
    await harness.org.fault(ofPart, { operation: 'create' }, 1);
    const id = randomUUID();
    const values = quoteFor(harness.memberId);
    const made = await replica.crm.records.createAndRead(quote, id, values, aCall());
    assert.equal(made?.values['id'], id);
    await harness.org.fault(ofPart, { operation: 'update' }, 1);
    assert.equal((await change(record, 'Hotel 500'))?.values['name'], 'Hotel 500');
    assert.equal(await harness.org.calls('composite'), calls + 4);
  });

  it('inside the Composite call of a long query is repeated', async () => {
    const ids = Array.from({ length: 200 }, () => randomUUID());
    await harness.org.fault(ofPart, { operation: 'query' }, 1);
    const found = await Promise.all(ids.map((each) => replica.crm.records.find(quote, each, aCall())));
    assert.ok(found.every((record) => record === undefined));
  });

  it('that stays is crm_error after three tries, of a write with an unknown outcome, and opens no breaker', async () => {
    const before = await harness.org.calls('create');
    await harness.org.fault(faults['with a code'], { operation: 'create' });
    await assert.rejects(create(), hasCode('crm_error', { outcomeUnknown: true }));
    assert.equal(await harness.org.calls('create'), before + 3);
    await harness.org.fault(faults['with a code'], onData);
    await assert.rejects(create(), hasCode('crm_error', { outcomeUnknown: true }));
    // Where the CRM cannot be looked at, nothing is sent again.
    assert.equal(await harness.org.calls('create'), before + 4);
    assert.equal(await total(replica.metrics, 'handoff_crm_breaker_open'), 0);
  });

  it('that names no error opens the breaker, as other answers of the edge do', async () => {
    await harness.org.fault(faults['of HTML'], onData);
    for (let round = 0; round < 2; round++) await create().catch(() => undefined);
    assert.equal(await total(replica.metrics, 'handoff_crm_breaker_open'), 1);
  });
});

describe('validation', () => {
  const rejected = async (effect: object) => {
    await harness.org.fault(effect, onData, 1);
    const error = await create().catch((problem: Problem) => problem);
    assert.ok(error instanceof Problem);
    assert.equal(error.code, 'crm_rejected');
    assert.doesNotMatch(JSON.stringify([error.message, error.facts.errors]), /__c|__r|a0Q8d000001abCD/);
    return error;
  };

  it('passes the words of a validation rule on, scrubbed', async () => {
    const message =
      'Name__c of a0Q8d000001abCDEAY is bad for Quote__c: see Member__r.External_Id__c and Other__c';
    const error = await rejected(apiError(400, 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message));
    const words = 'name of (id) is bad for quote: see member_id and (field)';
    assert.deepEqual(error.facts.errors, [{ pointer: '', message: words }]);
  });

  it('passes nothing on of what triggers and other errors say', async () => {
    for (const code of [
      'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY',
      'DUPLICATE_VALUE',
      'STRING_TOO_LONG',
      'DUPLICATES_DETECTED',
    ]) {
      const error = await rejected(
        apiError(400, code, 'QuoteTrigger: duplicate value found: a0Q8d000001abCD'),
      );
      assert.doesNotMatch(error.message, /QuoteTrigger/);
    }
  });

  it('names the field as the API does', async () => {
    const tooLong = replica.crm.records.create(
      quote,
      randomUUID(),
      quoteFor(harness.memberId, { name: 'x'.repeat(300) }),
      aCall(),
    );
    await assert.rejects(tooLong, (error: Problem) => {
      assert.equal(error.code, 'crm_rejected');
      assert.deepEqual(error.facts.errors, [
        { pointer: '#/name', message: 'is longer than 255 characters.' },
      ]);
      return true;
    });
    const { trip_id, member_id, source, details } = quoteFor(harness.memberId);
    const values = { trip_id, member_id, source, details } as Record<string, string>;
    await assert.rejects(
      replica.crm.records.create(quote, randomUUID(), values, aCall()),
      (error: Problem) => {
        assert.deepEqual(error.facts.errors, [{ pointer: '#/name', message: 'is required.' }]);
        return true;
      },
    );
  });
});

describe('repeats', () => {
  const passing: [string, object][] = [
    ['a locked row', apiError(400, 'UNABLE_TO_LOCK_ROW', 'unable to obtain exclusive access')],
    ['a busy server', apiError(503, 'SERVER_UNAVAILABLE', 'Server too busy')],
    ['an edge that is down', { kind: 'down' }],
    ['too many long calls', { kind: 'concurrentLimit' }],
  ];
  for (const [name, effect] of passing) {
    it(`${name} delays every kind of call and fails none`, async () => {
      const { records } = replica.crm;
      const id = randomUUID();
      await harness.org.fault(effect, onData, 2);
      const ref = await create(id);
      await harness.org.fault(effect, onData, 1);
      await records.update(quote, ref, { name: 'changed' }, aCall());
      await harness.org.fault(effect, onData, 1);
      assert.equal((await find(id))?.values['name'], 'changed');
      await harness.org.fault(effect, onData, 1);
      await records.remove(quote, ref, aCall());
      assert.equal(await find(id), undefined);
    });

    it(`${name} that lasts is answered with 503, outcome known`, async () => {
      await harness.org.fault(effect, onData);
      await assert.rejects(create(), (error: Problem) => {
        assert.ok((error.facts.retryAfter ?? 0) >= 1);
        return hasCode('crm_unavailable')(error);
      });
    });
  }

  for (const kind of ['loseAnswer', 'reset', 'hang']) {
    it(`one record after ${kind}, and the caller sees nothing`, async () => {
      if (kind === 'hang') useShortTimeout();
      const id = randomUUID();
      await harness.org.fault({ kind }, { operation: 'create' }, 1);
      const { nativeId } = await create(id);
      const made = (await harness.org.records('Quote__c')).filter((row) => row['External_Id__c'] === id);
      assert.deepEqual(
        made.map((row) => row['Id']),
        [nativeId],
      );
    });

    it(`a change after ${kind} ends as it was asked for, since the CRM is looked at`, async () => {
      if (kind === 'hang') useShortTimeout();
      const id = randomUUID();
      await create(id);
      const record = (await find(id)) as StoredRecord;
      await harness.org.fault({ kind }, { operation: 'update' }, 1);
      await replica.crm.records.update(quote, record, { name: 'changed' }, aCall());
      assert.equal((await find(id))?.values['name'], 'changed');
    });

    it(`a deletion after ${kind} is done, once`, async () => {
      if (kind === 'hang') useShortTimeout();
      const ref = await create();
      await harness.org.fault({ kind }, { operation: 'delete' }, 1);
      await replica.crm.records.remove(quote, ref, aCall());
      await assert.rejects(replica.crm.records.remove(quote, ref, aCall()), hasCode('not_found'));
    });
  }

  it('a change that nobody can look after says that its outcome is unknown', async () => {
    const ref = await create();
    await harness.org.fault({ kind: 'reset' }, { operation: 'update' });
    const update = replica.crm.records.update(quote, ref, { name: 'changed' }, aCall());
    await assert.rejects(update, hasCode('crm_unavailable', { outcomeUnknown: true }));
  });

  it('a change is not repeated over what somebody else has written meanwhile', async () => {
    useShortTimeout();
    const id = randomUUID();
    const ref = await create(id);
    const record = (await find(id)) as StoredRecord;
    const fault = await harness.org.fault({ kind: 'hang' }, { operation: 'update' }, 1);
    const update = replica.crm.records.update(quote, record, { name: 'changed' }, aCall());
    const refused = assert.rejects(update, hasCode('crm_timeout', { outcomeUnknown: true }));
    await harness.org.struck(fault);
    await harness.addReplica().crm.records.update(quote, ref, { name: 'by somebody else' }, aCall());
    await refused;
    assert.equal((await find(id))?.values['name'], 'by somebody else');
  });

  it('a create whose answers are all lost says that its outcome is unknown, whatever came last', async () => {
    await harness.org.fault({ kind: 'reset' }, { operation: 'create' }, 1);
    await harness.org.fault({ kind: 'dailyLimit' }, { operation: 'create' });
    await assert.rejects(create(), hasCode('crm_quota_exhausted', { outcomeUnknown: true }));
  });

  it('a create whose answer is lost is looked up by one call, and sent again only where it was not done', async () => {
    for (const [kind, creates] of [
      ['loseAnswer', 1],
      ['reset', 2],
    ] as const) {
      await harness.org.fault({ kind }, { operation: 'create' }, 1);
      await harness.org.resetCounters();
      await create();
      const { calls } = await harness.org.counters();
      assert.deepEqual([calls['create'], calls['queryAll']], [creates, 1]);
    }
  });

  it('a create whose look-up fails is not sent again, and says that its outcome is unknown', async () => {
    await harness.org.fault({ kind: 'loseAnswer' }, { operation: 'create' }, 1);
    await harness.org.fault({ kind: 'dailyLimit' }, onData);
    await harness.org.resetCounters();
    await assert.rejects(create(), hasCode('crm_unavailable', { outcomeUnknown: true }));
    assert.equal(await harness.org.calls('create'), 1);
  });

  it('a lost answer with a token that was revoked meanwhile makes one record', async () => {
    useShortTimeout();
    const id = randomUUID();
    const fault = await harness.org.fault({ kind: 'lateAnswer', ms: 1500 }, { operation: 'create' }, 1);
    const creation = create(id);
    await harness.org.struck(fault);
    await harness.org.revokeTokens();
    await creation;
    assert.equal(
      (await harness.org.records('Quote__c')).filter((row) => row['External_Id__c'] === id).length,
      1,
    );
  });
});

describe('time', () => {
  it('a CRM that hangs is crm_timeout before the deadline', async () => {
    useShortTimeout();
    await harness.org.fault({ kind: 'hang' }, onData);
    const call = aCall(1500);
    await assert.rejects(replica.crm.records.find(quote, randomUUID(), call), hasCode('crm_timeout'));
    assert.ok(call.crmMs >= 500);
  });

  it('starts no call without time for it', async () => {
    const calls = await harness.org.calls('query');
    await assert.rejects(find(undefined, 200), hasCode('crm_timeout'));
    assert.equal(await harness.org.calls('query'), calls);
  });

  it('an org that cannot be reached is crm_unavailable, outcome known', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.on('listening', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const url = `http://127.0.0.1:${port}`;
    const { cache } = harness;
    const elsewhere = harness.addReplica({ environment: 'prod' });
    await elsewhere.crm.tokens.getToken(aCall());
    const record = JSON.parse((await cache.get('crm_token:prod')) as string);
    await cache.set('crm_token:prod', JSON.stringify({ ...record, instance_url: url }), 60_000);
    const creation = elsewhere.crm.records.create(quote, randomUUID(), quoteFor(harness.memberId), aCall());
    await assert.rejects(creation, hasCode('crm_unavailable'));
  });
});

describe('limits', () => {
  it('the daily limit is answered at once: no repeat, no new token', async () => {
    const before = await harness.org.counters();
    await harness.org.fault({ kind: 'dailyLimit' }, onData);
    await assert.rejects(create(), hasCode('crm_quota_exhausted'));
    const { calls, tokensIssued } = await harness.org.counters();
    assert.equal(calls['create'], (before.calls['create'] ?? 0) + 1);
    assert.equal(tokensIssued, before.tokensIssued);
  });

  it('shows the use of the quota', async () => {
    await find();
    const used = await total(replica.metrics, 'handoff_crm_api_usage');
    assert.equal(replica.crm.usage?.used, used);
    assert.ok(used > 0);
    assert.equal(await total(replica.metrics, 'handoff_crm_api_limit'), 100_000);
    assert.ok((await total(replica.metrics, 'handoff_crm_call_duration_seconds')) > 0);
  });

  it('keeps the reserve of the quota for writes', async () => {
    const { records } = harness.addReplica({ quotaReserve: 100_000 }).crm;
    await records.create(booking, randomUUID(), quoteFor(harness.memberId), aCall());
    await assert.rejects(
      records.find(booking, randomUUID(), aCall()),
      hasCode('crm_quota_exhausted', { retryAfter: 60 }),
    );
    await records.create(booking, randomUUID(), quoteFor(harness.memberId), aCall());
  });

  it('keeps to its number of calls in flight; one that waits too long gets an error', async () => {
    const { records } = harness.addReplica({ maxConcurrency: 2, timeoutMs: 700 }).crm;
    const fault = await harness.org.fault(
      { kind: 'hold', stage: 'before' },
      { operation: 'query', object: 'Booking__c' },
    );
    const held = [1, 2].map(() => records.find(booking, randomUUID(), aCall()));
    await harness.org.struck(fault, 2);
    await assert.rejects(
      records.find(quote, randomUUID(), aCall(100)),
      hasCode('crm_unavailable', { retryAfter: 1 }),
    );
    await harness.org.release(fault);
    await harness.org.heal();
    await Promise.all(held);
    await harness.org.configure({ latencyMs: 5 });
    await harness.org.resetCounters();
    const list = () => records.list(quote, aList({ limit: 1 }), aCall());
    await Promise.all(Array.from({ length: 40 }, list));
    await harness.org.configure({ latencyMs: 0 });
    assert.ok((await harness.org.counters()).highestConcurrency <= 2);
  });
});
