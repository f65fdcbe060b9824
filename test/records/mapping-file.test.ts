import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { parse, stringify } from 'yaml';
import { resourcesOf } from '../../src/records/mapping.ts';
import { maxMappingBytes, parseMapping, readResources } from '../../src/records/mapping-file.ts';
import { creationSchema } from '../../src/records/representation.ts';
import type { Field } from '../../src/records/resource.ts';
import { countWork } from '../support/count-work.ts';

const root = join(import.meta.dirname, '../..');
const module = import.meta.resolve('../../src/records/mapping-file.ts');
const travel = readFileSync(join(root, 'simulators/salesforce/orgs/travel.mapping.yaml'), 'utf8');

/** The faults of a file, as `line:column message`. */
function faultsOf(text: string): string[] {
  const parsed = parseMapping(text);
  return 'faults' in parsed
    ? parsed.faults.map(({ line, column, message }) => `${line}:${column} ${message}`)
    : [];
}

/** Those of what a file says of quotes, without where that is. */
function ofQuote(quote: object): string[] {
  return faultsOf(stringify({ version: 1, resources: { quote } })).map((fault) =>
    fault.replace(/^\S+ (resources\.quote\.)?/, ''),
  );
}

describe('a mapping file', () => {
  it('is laid over the declarations of the package', () => {
    const parsed = parseMapping(travel);
    assert.ok('mapping' in parsed, JSON.stringify(parsed));
    const { quote, booking, member } = resourcesOf(parsed.mapping);
    assert.deepEqual(
      [quote.crmObject, booking.crmObject, member.crmObject],
      ['Travel_Offer__c', 'Trip_Booking__c', 'Traveller__c'],
    );
    const field = (name: string) => quote.fields[name] as Field;
    assert.deepEqual(field('member_id').crm, {
      ...{ path: 'Traveller__r.Member_Key__c', lookupColumn: 'Traveller__c' },
    });
    assert.deepEqual(field('details').columns, { size: 131_072, count: 8 });
    assert.deepEqual([field('consumer_name').isAbsent, field('actor').filter], [true, false]);
    const { kind, writable, filter } = field('budget');
    assert.deepEqual([kind, writable, filter], ['unknown', true, true]);
    assert.deepEqual(field('nights').added, { type: undefined, from: ['result', 'details', 'nights'] });
    assert.equal(field('status').crm.path, 'Stage__c');
    assert.equal(field('updated_at').crm.path, 'LastModifiedDate');
    assert.deepEqual(quote.constants?.['RecordTypeId'], { recordType: 'Travel' });
    // As the answers have them: what the org adds stands before who made the record.
    assert.deepEqual(Object.keys(booking.fields).slice(-7), [
      ...['paid', 'consumer_id', 'consumer_name', 'actor', 'verified', 'created_at', 'updated_at'],
    ]);
    // The column for the proof of the actor is where the one for the actor is.
    assert.equal(booking.fields['verified']?.isAbsent, true);
  });

  it('leaves what it does not name as it is', () => {
    const plain = resourcesOf();
    const parsed = parseMapping('{"version": 1, "resources": {"quote": {}}}');
    assert.ok('mapping' in parsed);
    assert.equal(JSON.stringify(resourcesOf(parsed.mapping)), JSON.stringify(plain));
    const member = parseMapping('version: 1\nresources: {member: {fields: {id: Key__c, email: null}}}');
    assert.ok('mapping' in member);
    assert.equal(resourcesOf(member.mapping).quote.fields['member_id']?.crm.path, 'Member__r.Key__c');
    assert.equal(resourcesOf(member.mapping).member.fields['email']?.filter, false);
  });

  it('can demand a field in the body that creates a record', () => {
    const add = {
      must: { field: 'Must__c', access: 'write', required: true },
      may: { field: 'May__c', access: 'write' },
    };
    const parsed = parseMapping(stringify({ version: 1, resources: { booking: { add } } }));
    assert.ok('mapping' in parsed);
    const { required } = creationSchema(resourcesOf(parsed.mapping).booking) as { required?: string[] };
    assert.ok(required?.includes('must') && !required.includes('may'));
  });

  it('fits the schema for editors, which refuses what the service refuses', () => {
    const validate = new Ajv2020({ strict: false }).compile(
      JSON.parse(readFileSync(join(root, 'docs/mapping.schema.json'), 'utf8')) as object,
    );
    assert.ok(validate(parse(travel)), JSON.stringify(validate.errors));
    assert.ok(!validate({ version: 2, resources: {} }));
    assert.ok(!validate({ version: 1, resources: { quote: { fields: { id: null } } } }));
  });

  it('is refused with all its faults at once, each with line and column', () => {
    const text = `version: 2
resources:
  quote:
    objct: X
    object: Quote c
    fields:
      id: null
      name: Source__c
      details: [A__c, "b c"]
      created_at: Foo__c
    set: { Trip_Id__c: 1, "a b": 3, RecordTypeId: { recordtype: x } }
    add:
      Bad: { field: X__c, access: read }
      name: { field: Y__c, access: read, required: true, from: a }
      good: { field: y__C, access: both, from: /foo }
      far: { field: Z__c, access: read, from: /result/details/z }
  booking: { object: Contact }
  foo: {}
`;
    assert.deepEqual(faultsOf(text), [
      '1:1 version must be 1',
      "4:5 resources.quote.objct isn't known",
      '5:5 resources.quote.object must be the API name of an object, such as Travel_Offer__c',
      '7:7 resources.quote.fields.id must be the API name of a field, such as Trip_Ref__c',
      '8:7 resources.quote.fields.name is in the same field Source__c as fields.source',
      '9:7 resources.quote.fields.details must be the API name of a long text field, or a list of 1 to 20 of them',
      "10:7 resources.quote.fields.created_at isn't a field that can be mapped",
      '11:12 resources.quote.set.Trip_Id__c is in the same field Trip_Id__c as fields.trip_id',
      '11:27 resources.quote.set.a b must be the API name of a field, such as Channel__c',
      '11:37 resources.quote.set.RecordTypeId must be a text, a number, true or false, or {recordType: <developer name>}',
      '13:7 resources.quote.add.Bad must be a name in snake_case of at most 40 characters',
      '14:7 resources.quote.add.name is already a name in the API',
      '14:42 resources.quote.add.name.required needs access: write',
      "14:58 resources.quote.add.name.from must be a JSON Pointer into the hand-off's body, such as /result/details/checkIn",
      '15:15 resources.quote.add.good.field is in the same field y__C as add.name.field',
      '15:28 resources.quote.add.good.access must be read or write',
      '15:42 resources.quote.add.good.from must begin with one of /type, /trip_id, /member_id, /result',
      '16:41 resources.quote.add.far.from needs access: write',
      '17:14 resources.booking.object must be another object than that of member',
      "18:3 resources.foo isn't known",
    ]);
  });

  for (const [what, quote, fault] of [
    [
      'a name that would be more than a name',
      { object: "Quote__c' OR Name != '" },
      /^object must be the API name/,
    ],
    [
      'two texts in one field',
      { fields: { name: 'T__c', source: 't__c' } },
      /^fields\.source is in the same field/,
    ],
    [
      'one field twice in the list',
      { fields: { details: ['A__c', 'A__c'] } },
      /^fields\.details\.1 is in the same/,
    ],
    [
      'a lookup as a field',
      { add: { m: { field: 'Member__c', access: 'read' } } },
      /same field Member__c as fields\.member_id/,
    ],
    [
      'what the service reads by itself',
      { add: { d: { field: 'CreatedDate', access: 'read' } } },
      /as fields\.created_at/,
    ],
    ['the id of the CRM', { set: { Id: 'x' } }, /as fields\.Id/],
    [
      'the name of a parameter',
      { add: { limit: { field: 'L__c', access: 'read' } } },
      /already a name in the API/,
    ],
    [
      'the name of a group',
      { add: { created_by: { field: 'L__c', access: 'read' } } },
      /already a name in the API/,
    ],
    [
      'null for what is needed',
      { fields: { trip_id: null } },
      /^fields\.trip_id must be the API name of a field/,
    ],
    [
      'a field that an object would be written to',
      { add: { a: { field: 'A__c', access: 'write', from: '/result/details' } } },
      /^add\.a\.from leads to an object/,
    ],
    [
      'a field with a name that all objects have',
      { add: { constructor: { field: 'A__c', access: 'read' } } },
      /^add\.constructor is already a name in the API/,
    ],
    [
      'a field named as the part with the member',
      { add: { member: { field: 'A__c', access: 'read' } } },
      /^add\.member is already a name in the API/,
    ],
    [
      'a field named as a parameter of lists',
      { add: { include: { field: 'A__c', access: 'read', filter: true } } },
      /^add\.include is already a name in the API/,
    ],
    ['a field without access', { add: { a: { field: 'A__c' } } }, /^add\.a\.access is missing/],
  ] as const) {
    it(`is refused for ${what}`, () => {
      assert.match(ofQuote(quote).join('\n'), fault);
    });
  }

  it('is refused for its syntax, where that is wrong', () => {
    assert.match(faultsOf('version: 1\nresources:\n  quote: [').join('\n'), /^3:\d+ /);
    assert.deepEqual(faultsOf('version: 1\nversion: 1'), ['2:1 version is defined twice']);
    assert.deepEqual(faultsOf('version: 1\n? [quote]\n: {}'), [
      '2:3 a name must be text, not an object or a list',
    ]);
    assert.deepEqual(faultsOf('version: 1\nresources: *there'), [
      '2:12 there is no anchor &there before this',
    ]);
    assert.deepEqual(faultsOf(''), ['1:1 the file must be a mapping: {version: 1, resources}']);
  });

  it('is bounded in its size, and in what its anchors stand for', () => {
    assert.match(
      faultsOf(`#${'x'.repeat(maxMappingBytes)}`).join('\n'),
      /^1:1 the file has more than 262144 bytes$/,
    );
    assert.throws(() => readResources('/dev/zero'), /has more than 262144 bytes/);
    const bomb = [
      'a: &a0 [x]',
      ...[...Array(9).keys()].map((n) => `b${n}: &a${n + 1} [${Array(9).fill(`*a${n}`).join()}]`),
    ];
    assert.match(faultsOf(bomb.join('\n')).join('\n'), /^1:1 .*alias/i);
    const many = `version: 1\nresources: &none {}\nmore: [\n${'  *none,\n'.repeat(20_000)}]`;
    assert.deepEqual(faultsOf(many), ['104:3 is one of more than 100 references to anchors']);
    const anchors = `version: 1
resources:
  quote: { fields: &names { source: Supplier__c } }
  booking: { fields: *names }
`;
    assert.deepEqual(faultsOf(anchors), []);
  });

  const inQuote = (text: string) => `version: 1\nresources: {quote: ${text}}`;
  const each = (count: number, of: (n: number) => string) => Array.from({ length: count }, (_, n) => of(n));
  for (const [what, textWith] of [
    ['unknown names', (n) => `version: 1\n${each(n, (at) => `k${at}: 1\n`).join('')}`],
    ['unknown fields', (n) => inQuote(`{fields: {${each(n, (at) => `k${at}: A`).join()}}}`)],
    ['names that stand twice', (n) => `version: 1\n${'k: 1\n'.repeat(n)}`],
    [
      'further fields that share one of the CRM',
      (n) => inQuote(`{add: {${each(n, (at) => `k${at}: {field: A, access: read}`).join()}}}`),
    ],
    ['wrong constants', (n) => inQuote(`{set: {${each(n, (at) => `a${at}: {}`).join()}}}`)],
    ['columns of details', (n) => inQuote(`{fields: {details: [${'A, '.repeat(n)}]}}`)],
    ['levels of names', (n) => `${'{? '.repeat(n / 50)}x${'}'.repeat(n / 50)}`],
  ] as const satisfies [string, (n: number) => string][])
    it(`takes work in proportion to its size, for ${what}`, async () => {
      const work = (n: number) => countWork(module, 'parseMapping', textWith(n));
      // Twice as much, and a bit; four times as much where each is compared with all others.
      assert.ok((await work(2000)) < 3 * (await work(1000)));
    });

  it('has no sets and ordered maps, whose content would not be seen', () => {
    assert.deepEqual(faultsOf('version: 1\nresources: !!omap [quote: { object: "not a name" }]'), [
      '2:1 resources must be the resources quote, booking and member',
    ]);
  });

  it('of any content is a mapping or has faults with a position, and never fails otherwise', () => {
    const name = fc.oneof(
      fc.constantFrom(
        'version',
        'resources',
        'quote',
        'booking',
        'member',
        'fields',
        'set',
        'add',
        'field',
        'from',
      ),
      fc.constantFrom('id', 'details', 'access', 'object', '__proto__', 'constructor', ''),
      fc.string(),
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 6 },
        fc.constantFrom<unknown>(1, 'X__c', 'write', null, true, '/result/details/a'),
        fc.string(),
        fc.double(),
        fc.array(tie('tree'), { maxLength: 4 }),
        fc.dictionary(name, tie('tree'), { maxKeys: 5 }),
      ),
    }));
    const text = fc.oneof(
      tree.map((content) => stringify(content)),
      fc.string({ maxLength: 300 }),
      fc
        .tuple(fc.nat({ max: travel.length }), fc.nat({ max: 40 }), fc.string({ maxLength: 10 }))
        .map(([start, length, put]) => travel.slice(0, start) + put + travel.slice(start + length)),
    );
    fc.assert(
      fc.property(text, (given) => {
        const parsed = parseMapping(given);
        if ('mapping' in parsed) {
          resourcesOf(parsed.mapping);
          return;
        }
        assert.ok(parsed.faults.length > 0 && parsed.faults.length <= 50);
        const lines = given.split('\n').length;
        for (const { line, column, message } of parsed.faults)
          assert.ok(line >= 1 && line <= lines + 1 && column >= 1 && message.length > 0);
      }),
      { numRuns: 500 },
    );
  });
});

describe('every mapping in the project', () => {
  const files = globSync('{docs,simulators}/**/*.mapping.yaml', { cwd: root });
  for (const file of files)
    it(`${file} is valid`, () => assert.deepEqual(faultsOf(readFileSync(join(root, file), 'utf8')), []));
});
