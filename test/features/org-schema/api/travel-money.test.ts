import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { offerFor } from '../../../support/handoffs.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { assertProblem } from '../../../support/problems.ts';

const root = join(import.meta.dirname, '../../../..');
const orgs = join(root, 'simulators/salesforce/orgs');
const moneyFile = join(root, 'docs/mappings/travel-money.yaml');

interface Mapping {
  resources: Record<'quote' | 'booking', { object?: string; add: Record<string, { field: string }> }>;
}
interface Described {
  objects: Record<string, { fields: object }>;
}

const read = async <T>(path: string) => parse(await readFile(path, 'utf8')) as T;

/** The package's fields, as an administrator would make them on other objects. */
const fields = {
  Amount__c: { type: 'number', precision: 16, scale: 2 },
  Commission__c: { type: 'number', precision: 16, scale: 2 },
  Currency__c: { type: 'text', length: 3 },
  Price_Basis__c: { type: 'picklist', restricted: true, values: ['net', 'gross'] },
  Supplier_Reference__c: { type: 'text', length: 100 },
};

const money = {
  amount: 612.4,
  currency: 'EUR',
  price_basis: 'gross',
  commission: 61.24,
  supplier_reference: 'HB-8841273',
};

for (const [where, objects] of [
  ['the org with the package', { quote: 'Quote__c', booking: 'Booking__c', key: 'External_Id__c' }],
  ['the travel org', { quote: 'Travel_Offer__c', booking: 'Trip_Booking__c', key: 'Gateway_Key__c' }],
] as const)
  describe(`money by the mapping of the documentation, in ${where}`, () => {
    let dir: string;
    let own: OwnOrg;
    let gateway: TestGateway;
    before(async () => {
      dir = await mkdtemp(join(tmpdir(), 'handoff-money-'));
      const files =
        objects.quote === 'Quote__c' ? { org: 'default', mapping: moneyFile } : await travelFiles();
      own = await startOwnOrg({ org: files.org });
      await own.trust(join(dir, 'secrets'));
      gateway = await startGateway({
        ...own.env,
        ...{ CRM_MAPPING_FILE: files.mapping, SECRETS_DIR: join(dir, 'secrets') },
      });
      await eventually(async () => {
        const document = await (await gateway.request('/v1/docs')).text();
        assert.match(document, /"gross"/);
      });
    });
    after(async () => {
      await gateway.stop();
      await own.close();
      await rm(dir, { recursive: true });
    });

    /** The travel org with these fields, and its mapping with those of the fragment. */
    const travelFiles = async () => {
      const described = await read<Described>(join(orgs, 'travel.yaml'));
      for (const object of [objects.quote, objects.booking]) {
        const found = described.objects[object];
        assert.ok(found);
        found.fields = { ...found.fields, ...fields };
      }
      const mapping = await read<Mapping>(join(orgs, 'travel.mapping.yaml'));
      const fragment = await read<Mapping>(moneyFile);
      for (const name of ['quote', 'booking'] as const)
        Object.assign(mapping.resources[name].add, fragment.resources[name].add);
      const files = { org: join(dir, 'org.yaml'), mapping: join(dir, 'mapping.yaml') };
      await writeFile(files.org, stringify(described));
      await writeFile(files.mapping, stringify(mapping));
      return files;
    };
    const handOff = (type: string, details: object) =>
      gateway.request('/api/v1/handoff', {
        body: offerFor(own.org.memberId, { type, result: { name: 'Hotel', source: 'hotelbeds', details } }),
        headers: { 'idempotency-key': randomUUID() },
      });

    test('stands in its fields after a hand-off, and in answers and filters', async () => {
      for (const type of ['quote', 'booking'] as const) {
        const response = await handOff(type, { ...money, room: 'DBL' });
        assert.equal(response.status, 201, await response.clone().text());
        const { external_id } = (await response.json()) as { external_id: string };
        const [record] = await own.org.records(objects[type], { [objects.key]: external_id });
        const names = Object.keys(fields).map((name) => record?.[name]);
        assert.deepEqual(names, [612.4, 61.24, 'EUR', 'gross', 'HB-8841273']);
        const path = `/v1/${type}s`;
        const shown = (await (await gateway.request(`${path}/${external_id}`)).json()) as typeof money;
        const { amount, currency, price_basis, commission, supplier_reference } = shown;
        assert.deepEqual({ amount, currency, price_basis, commission, supplier_reference }, money);
        const found = await gateway.request(`${path}?currency=EUR&price_basis=gross&amount=612.4`);
        const { data } = (await found.json()) as { data: { id: string }[] };
        assert.deepEqual(
          data.map(({ id }) => id),
          [external_id],
        );
      }
    });

    test('is refused where it does not fit, by its place in the details', async () => {
      for (const [name, wrong] of [
        ['amount', '612'],
        ['amount', 0.001],
        ['currency', 'euros'],
        ['price_basis', 'nett'],
      ] as const)
        await assertProblem(
          await handOff('quote', { ...money, [name]: wrong }),
          400,
          'invalid_request',
          `#/result/details/${name}`,
        );
    });
  });
