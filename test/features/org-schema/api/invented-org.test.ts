import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { accept, offerFor, readHandoff, tripFor } from '../../../support/handoffs.ts';
import { isNightly, partOf } from '../../../support/nightly.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { newReservation } from '../../../support/reservations.ts';

type Json = Record<string, unknown>;

const key = { type: 'text', length: 36, unique: true, externalId: true, caseSensitive: true };
const fields = (children: string) => ({
  Ref__c: key,
  Journey__c: { type: 'text', length: 36, externalId: true },
  Passenger__c: { type: 'reference', referenceTo: 'Passenger__c', children },
  Title__c: { type: 'text', length: 200 },
  Carrier__c: { type: 'text', length: 120 },
  Raw__c: { type: 'longtext', length: 32_768 },
  State__c: {
    type: 'picklist',
    restricted: true,
    values: ['created', 'pending', 'confirmed', 'cancelled', 'sold'],
  },
  Consumer__c: { type: 'text', length: 64, externalId: true },
  Price__c: { type: 'currency', precision: 12, scale: 2 },
  Class__c: { type: 'picklist', restricted: true, values: ['First', 'Second', 'Panorama'] },
  Note__c: { type: 'text', length: 80 },
  Depot__c: { type: 'text', length: 20 },
});
const named = (label: string) => ({
  label,
  plural: `${label}s`,
  name: { type: 'autonumber', format: '{000000}', label: 'No' },
});
const recordTypes = { Rail: { label: 'Rail', default: true }, Bus: { label: 'Bus' } };

/** The org of a railway, in which nothing has a name that the service knows. */
const railway = {
  label: 'Railway',
  language: 'en',
  currencies: { default: 'CHF', active: ['CHF'], inactive: [] },
  members: {
    ...{ object: 'Passenger__c', key: 'Ref__c', firstName: 'First__c', lastName: 'Last__c' },
    ...{ email: 'Mail__c', phone: 'Tel__c', values: {} },
  },
  objects: {
    Passenger__c: {
      ...named('Passenger'),
      fields: {
        ...{ Ref__c: key, First__c: { type: 'text', length: 60 }, Last__c: { type: 'text', length: 80 } },
        ...{ Mail__c: { type: 'email' }, Tel__c: { type: 'phone' } },
      },
    },
    Fare__c: { ...named('Fare'), fields: fields('Fares'), recordTypes },
    Ticket__c: { ...named('Ticket'), fields: fields('Tickets'), recordTypes },
  },
};

const write = (field: string, from?: string) => ({
  field,
  access: 'write',
  description: field,
  ...(from && { from }),
});
const mapped = (object: string) => ({
  object,
  fields: {
    ...{
      id: 'Ref__c',
      trip_id: 'Journey__c',
      member_id: 'Passenger__r',
      name: 'Title__c',
      source: 'Carrier__c',
    },
    ...{
      details: ['Raw__c'],
      status: 'State__c',
      consumer_id: 'Consumer__c',
      consumer_name: null,
      actor: null,
    },
  },
  set: { RecordTypeId: { recordType: 'Rail' } },
  add: {
    price: write('Price__c', '/result/details/price'),
    rail_class: write('Class__c', '/result/details/class'),
    note: write('Note__c', '/result/details/note'),
  },
});
const mapping = {
  version: 1,
  resources: {
    quote: mapped('Fare__c'),
    booking: mapped('Ticket__c'),
    member: {
      object: 'Passenger__c',
      fields: {
        id: 'Ref__c',
        first_name: 'First__c',
        last_name: 'Last__c',
        email: 'Mail__c',
        phone: 'Tel__c',
      },
    },
  },
};

describe('an invented org changes while hand-offs, trips, checks and reservations come', () => {
  let own: OwnOrg;
  let gateway: TestGateway;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handoff-railway-'));
    const [org, mappingFile] = [join(folder, 'railway.yaml'), join(folder, 'mapping.yaml')];
    await writeFile(org, JSON.stringify(railway));
    await writeFile(mappingFile, JSON.stringify(mapping));
    own = await startOwnOrg({ org });
    await own.trust(folder);
    gateway = await startGateway({ ...own.env, CRM_MAPPING_FILE: mappingFile, SECRETS_DIR: folder });
    await works();
  });
  after(async () => {
    await gateway.stop();
    await own.close();
    await rm(folder, { recursive: true });
  });

  const change = async (ofObject: object, objects = ['Fare__c', 'Ticket__c']) => {
    const response = await fetch(`${own.org.url}/simulator/org`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ objects: Object.fromEntries(objects.map((object) => [object, ofObject])) }),
    });
    assert.equal(response.status, 200, await response.text());
  };
  const result = (details: object = {}) => ({
    name: 'Zurich to Chur',
    source: 'sbb',
    details: { price: 120.5, class: 'First', note: 'window', ...details },
  });
  const offer = (more: object = {}) => ({ ...offerFor(own.org.memberId), result: result(), ...more });
  const trip = (more: object = {}) =>
    tripFor(own.org.memberId, {
      items: ['quote', 'booking'].map((type) => ({ type, result: result() })),
      ...more,
    });
  const post = (path: string, body: object, headers = {}) => gateway.request(path, { body, headers });
  const reserve = () =>
    post('/v1/reservations', newReservation(own.org.memberId), { 'idempotency-key': randomUUID() });
  const lacks = async () => {
    const { crm } = (await (await gateway.request('/v1/healthz')).json()) as { crm: { lacks?: Json[] } };
    return crm.lacks ?? [];
  };
  const works = () =>
    eventually(async () => assert.equal((await post('/api/v1/handoff', offer())).status, 201), {
      everyMs: 200,
      withinMs: 90_000,
    });
  /** Each within ten seconds. */
  const untilLacking = (field: string | null, objects = ['Fare__c', 'Ticket__c']) =>
    eventually(
      async () => {
        const found = (await lacks()).filter((one) => one['field'] === field).map(({ object }) => object);
        assert.deepEqual(found, objects);
      },
      { everyMs: 100, withinMs: 10_000 },
    );
  const problemsIn = async (response: Response) => {
    const body = (await response.json()) as {
      ok: boolean;
      problems: { code: string; detail: string; errors: Json[] }[];
    };
    assert.equal(response.status, 200, JSON.stringify(body));
    return body.problems;
  };

  const misfits: [string, object, object, string | null, RegExp][] = [
    [
      'a field becomes required',
      { fields: { Depot__c: { required: true } } },
      { fields: { Depot__c: { required: false } } },
      'Depot__c',
      /Depot__c.* is required/,
    ],
    [
      'the status can not be `created` any more',
      { fields: { State__c: { values: ['sold'] } } },
      { fields: { State__c: fields('x').State__c } },
      'State__c',
      /status \(\w+\.State__c\) doesn't accept the value created/,
    ],
    [
      'a currency becomes text',
      { fields: { Price__c: { type: 'text', length: 40, precision: null, scale: null } } },
      { fields: { Price__c: { ...fields('x').Price__c, length: null } } },
      'Price__c',
      /price \(\w+\.Price__c\) was a number .* and is text now/,
    ],
    [
      'a text becomes a number',
      { fields: { Title__c: { type: 'number', precision: 8, scale: 0, length: null } } },
      { fields: { Title__c: { ...fields('x').Title__c, precision: null, scale: null } } },
      'Title__c',
      /name \(\w+\.Title__c\) has the type double/,
    ],
    [
      'another text becomes a number, minutes later',
      { fields: { Note__c: { type: 'number', precision: 8, scale: 0, length: null } } },
      { fields: { Note__c: { ...fields('x').Note__c, precision: null, scale: null } } },
      'Note__c',
      /note \(\w+\.Note__c\) was text .* and is a number now/,
    ],
    [
      'the objects become read only',
      { access: 'read' },
      { access: null },
      null,
      /can't be written by the integration user/,
    ],
    [
      'a field is deleted',
      { fields: { Class__c: null } },
      { fields: { Class__c: fields('x').Class__c } },
      'Class__c',
      /rail_class \(\w+\.Class__c\) doesn't exist/,
    ],
    [
      'a field is read only',
      { fields: { Carrier__c: { access: 'read' } } },
      { fields: { Carrier__c: { access: null } } },
      'Carrier__c',
      /source \(\w+\.Carrier__c\) can't be written/,
    ],
    [
      'the key is too short',
      { fields: { Ref__c: { length: 30 } } },
      { fields: { Ref__c: { length: 36 } } },
      'Ref__c',
      /id \(\w+\.Ref__c\) holds 30 characters/,
    ],
    [
      'the record type is gone',
      { recordTypes: { Rail: { available: false } } },
      { recordTypes: { Rail: { available: null } } },
      'RecordTypeId',
      /RecordTypeId has the record type Rail/,
    ],
  ];
  for (const [what, broken, repaired, field, named] of partOf(misfits, 3))
    test(`${what}: nobody is blamed, and what waits goes on with the repair`, async () => {
      await change(broken);
      const waiting = await accept(gateway, offer(), { headers: { prefer: 'respond-async' } });
      const sent = [
        await post('/api/v1/handoff', offer()),
        await post('/api/v1/handoffs', trip()),
        await post('/api/v1/handoffs', trip({ atomic: false })),
      ];
      await untilLacking(field);
      for (const response of sent) {
        const { code, detail } = (await response.json()) as { code: string; detail: string };
        assert.deepEqual([response.status, code], [502, 'crm_error'], detail);
        assert.match(detail, named);
      }
      const [ofOffer] = await problemsIn(await post('/api/v1/handoff/check', offer()));
      assert.equal(ofOffer?.code, 'crm_error');
      assert.match(ofOffer.detail, named);
      assert.equal((await problemsIn(await post('/api/v1/handoffs/check', trip()))).length, 2);
      assert.equal((await readHandoff(gateway, waiting)).status, 'accepted');
      await change(repaired);
      await works();
      await eventually(async () => assert.deepEqual(await lacks(), []), { everyMs: 200, withinMs: 90_000 });
      // Its own pause may be hours long by now.
      await eventually(async () => assert.equal((await readHandoff(gateway, waiting)).status, 'created'), {
        everyMs: 100,
        withinMs: 12_000,
      });
      assert.deepEqual(await problemsIn(await post('/api/v1/handoff/check', offer())), []);
    });

  test('a status of reservations leaves the picklist: they name it, and nothing else suffers', async () => {
    const { State__c } = fields('x');
    await change({
      fields: { State__c: { values: State__c.values.filter((value) => value !== 'pending') } },
    });
    const response = await reserve();
    await untilLacking('State__c', ['Ticket__c']);
    assert.equal((await post('/api/v1/handoffs', trip())).status, 201);
    const { code, detail } = (await response.json()) as { code: string; detail: string };
    assert.deepEqual([response.status, code], [502, 'crm_error'], detail);
    assert.match(
      detail,
      /Ticket__c\.State__c doesn't accept the value pending, which reservations' bookings get/,
    );
    await change({ fields: { State__c } });
    await eventually(async () => assert.equal((await reserve()).status, 201), {
      everyMs: 500,
      withinMs: 90_000,
    });
  });

  test('a picklist of the source leaves the one of reservations out: that is not their caller’s fault', async () => {
    const { Carrier__c } = fields('x');
    await change({
      fields: { Carrier__c: { type: 'picklist', restricted: true, values: ['sbb'], length: 255 } },
    });
    const response = await reserve();
    const { code, detail } = (await response.json()) as { code: string; detail: string };
    assert.deepEqual([response.status, code], [502, 'crm_error'], detail);
    assert.match(detail, /source \(Ticket__c\.Carrier__c\) isn't one of the values that the CRM allows: sbb/);
    const other = offer({ result: { ...result(), source: 'db' } });
    const message = "isn't one of the values that the CRM allows: sbb.";
    const refused = await post('/api/v1/handoff', other);
    const { errors } = (await refused.json()) as { errors: Json[] };
    assert.deepEqual([refused.status, errors], [422, [{ pointer: '#/result/source', message }]]);
    const [checked] = await problemsIn(await post('/api/v1/handoff/check', other));
    assert.deepEqual(
      [checked?.code, checked?.errors],
      ['crm_rejected', [{ pointer: '#/result/source', message }]],
    );
    await change({ fields: { Carrier__c: { ...Carrier__c, values: null, restricted: null } } });
    assert.equal((await post('/api/v1/handoff', other)).status, 201);
    await eventually(
      async () => assert.deepEqual(await problemsIn(await post('/api/v1/handoff/check', other)), []),
      { everyMs: 500, withinMs: 90_000 },
    );
  });

  test('a value that comes back is taken within a minute, however often it was refused', {
    skip: !isNightly && 'it takes a minute: for the nightly run',
  }, async () => {
    const { Class__c } = fields('x');
    await change({ fields: { Class__c: { values: ['Second'] } } });
    for (const status of [422, 400, 400, 400])
      assert.equal((await post('/api/v1/handoff', offer())).status, status);
    await change({ fields: { Class__c } });
    await works();
  });

  test('a trigger that fails is named to the callers of reservations too', async () => {
    await change({ triggers: [{ name: 'FareAudit', on: ['afterInsert'], action: { kind: 'throw' } }] });
    const response = await reserve();
    const { code, errors } = (await response.json()) as { code: string; errors: Json[] };
    assert.deepEqual([response.status, code], [422, 'crm_rejected']);
    assert.deepEqual(errors, [{ pointer: '', message: 'its trigger or flow FareAudit failed.' }]);
    await change({ triggers: [] });
    assert.equal((await reserve()).status, 201);
  });
});
