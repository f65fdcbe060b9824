import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { type Answer, type Parsed, useOrg } from './org.ts';

const org = useOrg();
beforeEach(() => org.control('POST', '/reset'));

const OF_QUOTES = { name: 'QuoteTrigger', object: 'Quote__c', on: ['beforeInsert'] };
const POISON = { field: 'Name__c', equals: 'poison' };
const EXCEPTION = 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY';

const declare = async (automation: object): Promise<void> => {
  const answer = await org.control('PUT', '/automation', automation);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
};
const withTrigger = (trigger: object): Promise<void> => declare({ triggers: [{ ...OF_QUOTES, ...trigger }] });
const record = (name: string, more: object = {}): object => ({
  attributes: { type: 'Quote__c' },
  Name__c: name,
  Source__c: 'flights',
  ...more,
});
const createMany = (names: string[], allOrNone = false): Promise<Answer> =>
  org.data('POST', '/composite/sobjects', { allOrNone, records: names.map((name) => record(name)) });
const create = (body: object): Promise<Answer> =>
  org.data('POST', '/sobjects/Quote__c', { Source__c: 'flights', ...body });
const codes = ({ body }: Answer): string[] => body.map((item: Parsed) => item.errors[0]?.statusCode ?? 'ok');
/** Names of what is stored, in order of the alphabet. */
const stored = async (): Promise<string[]> => {
  const { body } = await org.control('GET', '/records/Quote__c');
  return body.map((row: { Name__c: string }) => row.Name__c).sort();
};
const triggerViews = async (): Promise<{ calls: number; hits: number }[]> =>
  (await org.control('GET', '/automation')).body.triggers;

describe('an exception that leaves a trigger', () => {
  for (const event of ['beforeInsert', 'afterInsert']) {
    it(`fails all records of its call, ${event}, and nothing is written`, async () => {
      await withTrigger({ on: [event], when: POISON, action: { kind: 'throw' } });
      const answer = await createMany(['a', 'poison', 'b']);
      assert.equal(answer.status, 200);
      assert.deepEqual(codes(answer), [EXCEPTION, EXCEPTION, EXCEPTION]);
      const [first, second] = answer.body.map((item: Parsed) => item.errors);
      assert.deepEqual(first, second);
      assert.deepEqual(first[0].fields, []);
      const name = event.replace(/^./, (letter) => letter.toUpperCase());
      assert.match(
        first[0].message,
        new RegExp(`^QuoteTrigger: execution of ${name}\n\ncaused by: System.NullPointerException: `),
      );
      assert.deepEqual(await stored(), []);
      assert.deepEqual(codes(await createMany(['a', 'b'])), ['ok', 'ok']);
    });
  }

  it('leaves alone the records that never came to it', async () => {
    await withTrigger({ on: ['afterInsert'], when: POISON, action: { kind: 'throw' } });
    const answer = await org.data('POST', '/composite/sobjects', {
      records: [record('poison'), record('b', { Source__c: null }), record('c', { Nope__c: 1 })],
    });
    assert.deepEqual(codes(answer), [EXCEPTION, 'REQUIRED_FIELD_MISSING', 'INVALID_FIELD']);
  });

  it('can carry the error of a statement inside', async () => {
    const action = { kind: 'throw', code: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'Not on Sundays' };
    await withTrigger({ action });
    const { status, body } = await create({ Name__c: 'a' });
    assert.equal(status, 400);
    assert.equal(body[0].errorCode, EXCEPTION);
    assert.match(
      body[0].message,
      /caused by: System\.DmlException: Insert failed\. First exception on row 0 with id \w{18}; first error: FIELD_CUSTOM_VALIDATION_EXCEPTION, Not on Sundays: \[\]/,
    );
  });

  it('is of one object in a call of several', async () => {
    await withTrigger({ action: { kind: 'throw' } });
    const contact = { attributes: { type: 'Contact' }, LastName: 'Okafor' };
    const answer = await org.data('POST', '/composite/sobjects', {
      records: [contact, record('a'), record('b'), contact],
    });
    assert.deepEqual(codes(answer), ['ok', EXCEPTION, EXCEPTION, 'ok']);
    assert.equal((await triggerViews())[0]?.calls, 1);
  });

  it('stops updates and deletes too', async () => {
    const { body: made } = await createMany(['a', 'b']);
    const ids = made.map(({ id }: Parsed) => id);
    await withTrigger({ on: ['beforeUpdate', 'afterDelete'], action: { kind: 'throw' } });
    const records = ids.map((id: string) => ({ attributes: { type: 'Quote__c' }, id, Name__c: 'new' }));
    assert.deepEqual(codes(await org.data('PATCH', '/composite/sobjects', { records })), [
      EXCEPTION,
      EXCEPTION,
    ]);
    const path = `/sobjects/Quote__c/${ids[0]}`;
    assert.equal((await org.data('PATCH', path, { Name__c: 'new' })).body[0].errorCode, EXCEPTION);
    assert.equal((await org.data('DELETE', path)).body[0].errorCode, EXCEPTION);
    assert.deepEqual(codes(await org.data('DELETE', `/composite/sobjects?ids=${ids.join(',')}`)), [
      EXCEPTION,
      EXCEPTION,
    ]);
    assert.deepEqual(await stored(), ['a', 'b']);
  });
});

describe('other faults of a trigger', () => {
  it('a lock inside passes after so many calls', async () => {
    await withTrigger({ action: { kind: 'lock' }, times: 2 });
    for (const _ of [1, 2]) {
      const answer = await createMany(['a', 'b']);
      assert.deepEqual(codes(answer), [EXCEPTION, EXCEPTION]);
      assert.match(
        answer.body[0].errors[0].message,
        /first error: UNABLE_TO_LOCK_ROW, unable to obtain exclusive access to this record or 1 records: \w{18}: \[\]/,
      );
    }
    assert.deepEqual(codes(await createMany(['a', 'b'])), ['ok', 'ok']);
  });

  it('a governor limit comes above so many records', async () => {
    await withTrigger({ when: { rowsAbove: 2 }, action: { kind: 'limit' } });
    const answer = await createMany(['a', 'b', 'c']);
    assert.deepEqual(codes(answer), [EXCEPTION, EXCEPTION, EXCEPTION]);
    assert.equal(
      answer.body[0].errors[0].message,
      'QuoteTrigger: execution of BeforeInsert caused by: System.LimitException: Too many SOQL queries: 101',
    );
    assert.deepEqual(codes(await createMany(['a', 'b'])), ['ok', 'ok']);
  });

  it('a flow has a code of its own', async () => {
    await withTrigger({
      name: 'Route quotes',
      on: ['afterInsert'],
      when: POISON,
      action: { kind: 'flowFault' },
    });
    const answer = await createMany(['a', 'poison']);
    const code = 'CANNOT_EXECUTE_FLOW_TRIGGER';
    assert.deepEqual(codes(answer), [code, code]);
    assert.match(answer.body[0].errors[0].message, /because the “Route quotes” process failed/);
    assert.deepEqual(await stored(), []);
  });

  it('a delay holds the answer back', async () => {
    await withTrigger({ action: { kind: 'delay', ms: 60 } });
    const started = performance.now();
    assert.equal((await create({ Name__c: 'a' })).status, 201);
    assert.ok(performance.now() - started >= 55);
  });

  it('values of a before-trigger are stored, but an invalid one fails all', async () => {
    await withTrigger({
      when: { field: 'Name__c', matches: '^a' },
      action: { kind: 'set', values: { Status__c: null, Trip_Id__c: 'set' } },
    });
    await createMany(['a', 'b']);
    const { body } = await org.query('SELECT Trip_Id__c FROM Quote__c ORDER BY Name__c');
    assert.deepEqual(
      body.records.map((row: Parsed) => row.Trip_Id__c),
      ['set', null],
    );
    await withTrigger({ when: POISON, action: { kind: 'set', values: { Name__c: 'x'.repeat(300) } } });
    assert.deepEqual(codes(await createMany(['c', 'poison'])), ['STRING_TOO_LONG', 'STRING_TOO_LONG']);
  });
});

describe('partial save', () => {
  const refuse = { when: POISON, action: { kind: 'addError', message: 'No', field: 'Name__c' } };

  it('sets a record with an error aside, and does the others again', async () => {
    await declare({
      triggers: [
        { ...OF_QUOTES, ...refuse },
        { ...OF_QUOTES, name: 'Count', on: ['afterInsert'], action: { kind: 'delay', ms: 0 } },
      ],
    });
    const answer = await createMany(['a', 'poison', 'b']);
    assert.deepEqual(codes(answer), ['ok', 'FIELD_CUSTOM_VALIDATION_EXCEPTION', 'ok']);
    assert.deepEqual(answer.body[1].errors, [
      { statusCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'No', fields: ['Name__c'] },
    ]);
    assert.deepEqual(await stored(), ['a', 'b']);
    assert.deepEqual(
      (await triggerViews()).map(({ calls, hits }) => [calls, hits]),
      [
        [2, 1],
        [2, 2],
      ],
    );
    const counters = (await org.control('GET', '/counters')).body;
    assert.equal(counters.rowsWritten, 2);
  });

  it('runs a trigger with a guard in the first pass only, so that its values are missing', async () => {
    await declare({
      triggers: [
        { ...OF_QUOTES, ...refuse },
        { ...OF_QUOTES, runOnce: true, action: { kind: 'set', values: { Trip_Id__c: 'set' } } },
      ],
    });
    const tripOf = async (names: string[]): Promise<string | null> => {
      const { body } = await createMany(names);
      return (await org.data('GET', `/sobjects/Quote__c/${body[0].id}`)).body.Trip_Id__c;
    };
    assert.equal(await tripOf(['a', 'b']), 'set');
    assert.equal(await tripOf(['a', 'poison']), null);
  });

  /** Each of these refuses its record only once the call has so few records. */
  const refuseBelow = (rowsBelow: number, name: string): object => ({
    ...OF_QUOTES,
    when: { rowsBelow, field: 'Name__c', equals: name },
    action: { kind: 'addError', message: name },
  });

  it('sets new errors of the second pass aside too', async () => {
    await declare({ triggers: [refuseBelow(5, 'one'), refuseBelow(4, 'two')] });
    const code = 'FIELD_CUSTOM_VALIDATION_EXCEPTION';
    assert.deepEqual(codes(await createMany(['a', 'one', 'two', 'b'])), ['ok', code, code, 'ok']);
    assert.deepEqual(await stored(), ['a', 'b']);
  });

  it('gives up all records when the third pass has errors', async () => {
    await declare({ triggers: [refuseBelow(5, 'one'), refuseBelow(4, 'two'), refuseBelow(3, 'three')] });
    const answer = await createMany(['a', 'one', 'two', 'three']);
    for (const { success, errors } of answer.body) {
      assert.equal(success, false);
      assert.deepEqual(
        errors.map(({ message }: Parsed) => message),
        ['Too many batch retries in the presence of Apex triggers and partial failures.'],
      );
    }
    assert.deepEqual(await stored(), []);
  });

  it('fails the rest when a trigger throws in the second pass', async () => {
    await declare({
      triggers: [
        { ...OF_QUOTES, ...refuse },
        { ...OF_QUOTES, when: { rowsBelow: 3 }, action: { kind: 'throw' } },
      ],
    });
    assert.deepEqual(codes(await createMany(['a', 'poison', 'b'])), [
      EXCEPTION,
      'FIELD_CUSTOM_VALIDATION_EXCEPTION',
      EXCEPTION,
    ]);
    assert.deepEqual(await stored(), []);
  });

  it('is not made with allOrNone', async () => {
    await withTrigger(refuse);
    const rolledBack = 'ALL_OR_NONE_OPERATION_ROLLED_BACK';
    assert.deepEqual(codes(await createMany(['a', 'poison', 'b'], true)), [
      rolledBack,
      'FIELD_CUSTOM_VALIDATION_EXCEPTION',
      rolledBack,
    ]);
    assert.equal((await triggerViews())[0]?.calls, 1);
    assert.deepEqual(await stored(), []);
  });

  it('frees a unique value of a record that was set aside', async () => {
    await withTrigger({ ...refuse, on: ['afterInsert'] });
    const records = [record('poison', { External_Id__c: 'k' })];
    assert.deepEqual(codes(await org.data('POST', '/composite/sobjects', { records })), [
      'FIELD_CUSTOM_VALIDATION_EXCEPTION',
    ]);
    assert.equal((await create({ Name__c: 'a', External_Id__c: 'k' })).status, 201);
  });
});

describe('rules of the org', () => {
  it('refuse single records, with all their errors at once', async () => {
    await declare({
      validationRules: [
        { name: 'A', object: 'Quote__c', when: POISON, message: 'No poison', field: 'Name__c' },
        { name: 'B', object: 'quote__c', when: { field: 'Trip_Id__c', equals: null }, message: 'No trip' },
      ],
      requiredFields: [{ name: 'C', object: 'Quote__c', fields: ['Status__c', 'Region__c', 'Team__c'] }],
    });
    const { status, body } = await create({ Name__c: 'poison', Status__c: 'new' });
    assert.equal(status, 400);
    assert.deepEqual(body, [
      {
        errorCode: 'REQUIRED_FIELD_MISSING',
        message: 'Required fields are missing: [Region__c, Team__c]',
        fields: ['Region__c', 'Team__c'],
      },
      { errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'No poison', fields: ['Name__c'] },
      { errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'No trip', fields: [] },
    ]);
    await org.control('DELETE', '/automation/C');
    const many = await org.data('POST', '/composite/sobjects', {
      records: [record('poison'), record('a', { Trip_Id__c: 't' })],
    });
    assert.deepEqual(codes(many), ['FIELD_CUSTOM_VALIDATION_EXCEPTION', 'ok']);
    assert.equal(many.body[0].errors.length, 2);
  });

  it('do not stop what the control API writes', async () => {
    await withTrigger({ action: { kind: 'throw' } });
    const answer = await org.control('POST', '/records/Quote__c', { Name__c: 'a', Source__c: 'b' });
    assert.equal(answer.status, 200);
  });
});

describe('the language of the user', () => {
  it('changes texts, not codes', async () => {
    await org.control('PATCH', '/settings', { language: 'de' });
    const missing = await org.data('POST', '/sobjects/Quote__c', { Name__c: 'a' });
    assert.deepEqual(missing.body, [
      {
        errorCode: 'REQUIRED_FIELD_MISSING',
        message: 'Pflichtfelder fehlen: [Source__c]',
        fields: ['Source__c'],
      },
    ]);
    await withTrigger({ action: { kind: 'lock' } });
    const [{ errors }] = (await createMany(['a'])).body;
    assert.equal(errors[0].statusCode, EXCEPTION);
    assert.match(errors[0].message, /Ausführung von BeforeInsert[^]*UNABLE_TO_LOCK_ROW, Kein exklusiver/);
    assert.equal((await org.control('PATCH', '/settings', { language: 'xx' })).status, 400);
  });
});

describe('the control API', () => {
  it('adds, lists and removes', async () => {
    await withTrigger({ action: { kind: 'lock' } });
    await org.control('POST', '/automation', {
      triggers: [{ ...OF_QUOTES, name: 'Other', action: { kind: 'delay', ms: 0 } }],
    });
    assert.equal((await triggerViews()).length, 2);
    assert.equal((await org.control('DELETE', '/automation/QuoteTrigger')).status, 200);
    assert.equal((await org.control('DELETE', '/automation/QuoteTrigger')).status, 404);
    assert.deepEqual(
      (await triggerViews()).map((trigger) => 'name' in trigger && trigger.name),
      ['Other'],
    );
    await org.control('DELETE', '/automation');
    assert.deepEqual((await org.control('GET', '/automation')).body, {
      triggers: [],
      validationRules: [],
      requiredFields: [],
    });
  });

  const action = { kind: 'lock' };
  const wrong: [object, RegExp][] = [
    [[], /automation must be/],
    [{ trigers: [] }, /trigers is unknown/],
    [{ triggers: {} }, /triggers must be a list/],
    [{ triggers: [{ ...OF_QUOTES, action, on: [] }] }, /triggers\[0\]\.on must be/],
    [{ triggers: [{ ...OF_QUOTES, action, object: 'Nope' }] }, /object must be/],
    [{ triggers: [{ ...OF_QUOTES, action, runOnce: 1 }] }, /runOnce must be a boolean/],
    [{ triggers: [{ ...OF_QUOTES, action: { kind: 'explode' } }] }, /action\.kind must be one of throw/],
    [{ triggers: [{ ...OF_QUOTES, action: { kind: 'toString' } }] }, /action\.kind must be one of throw/],
    [{ triggers: [{ ...OF_QUOTES, action: { kind: 'delay' } }] }, /action\.ms must be a number/],
    [
      { triggers: [{ ...OF_QUOTES, action: { kind: 'set', values: { X: 1 } } }] },
      /values\.X must be a field/,
    ],
    [{ triggers: [{ ...OF_QUOTES, action, when: { field: 'Name__c' } }] }, /belong together/],
    [
      { triggers: [{ ...OF_QUOTES, action, when: { field: 'X', equals: 1 } }] },
      /when\.field must be a field/,
    ],
    [
      { triggers: [{ ...OF_QUOTES, action, when: { field: 'Name__c', matches: '(' } }] },
      /regular expression/,
    ],
    [{ validationRules: [{ name: 'A', object: 'Quote__c', when: POISON }] }, /message must be a string/],
    [{ requiredFields: [{ name: 'A', object: 'Quote__c', fields: [] }] }, /fields must be a list/],
  ];
  for (const [automation, message] of wrong) {
    it(`refuses ${JSON.stringify(automation)}`, async () => {
      const answer = await org.control('PUT', '/automation', automation);
      assert.equal(answer.status, 400);
      assert.match(answer.body.error, message);
      assert.deepEqual(await triggerViews(), []);
    });
  }
});
