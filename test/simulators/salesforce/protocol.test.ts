import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { DATA, type Parsed, startOrg, type TestOrg } from './org.ts';

let org: TestOrg;
before(async () => {
  org = await startOrg({ seed: { members: 30 } });
});
after(() => org.close());

/** A request through node:http, which neither unpacks answers nor limits headers as fetch does. */
function raw(
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number; encoding?: string; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(org.url + path, { headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const encoding = response.headers['content-encoding'];
        const base = { status: response.statusCode ?? 0, body: Buffer.concat(chunks) };
        resolve(encoding === undefined ? base : { ...base, encoding });
      });
    });
    request.on('error', reject);
    request.end();
  });
}

describe('discovery', () => {
  it('lists the versions to anybody, oldest first', async () => {
    const response = await fetch(`${org.url}/services/data`);
    const versions = (await response.json()) as { label: string; url: string; version: string }[];
    assert.equal(response.headers.has('sforce-limit-info'), false);
    assert.deepEqual(versions[0], { label: "Summer '14", url: '/services/data/v31.0', version: '31.0' });
    assert.equal(versions.at(-1)?.version, '68.0');
  });

  it('lists the resources of a version and refuses versions that there are not', async () => {
    const { body } = await org.data('GET', '');
    assert.equal(body.sobjects, `${DATA}/sobjects`);
    assert.ok(body.identity.startsWith(`${org.url}/id/00D`));
    for (const version of ['v6.0', 'v69.0', 'v75.0', 'v62', 'x']) {
      const { status, body } = await org.call('GET', `/services/data/${version}/limits`);
      assert.deepEqual([status, body[0].errorCode], [404, 'NOT_FOUND'], version);
    }
    for (const version of ['v7.0', 'v30.0'])
      assert.equal((await org.call('GET', `/services/data/${version}/limits`)).status, 410, version);
  });

  it('shows the limits, in a resource and on every answer', async () => {
    const { body, headers } = await org.data('GET', '/limits');
    const { Max, Remaining } = body.DailyApiRequests;
    assert.equal(Max, 100_000);
    assert.equal(headers.get('sforce-limit-info'), `api-usage=${Max - Remaining}/${Max}`);
    const failed = await org.data('GET', '/sobjects/Nope');
    assert.match(failed.headers.get('sforce-limit-info') ?? '', /^api-usage=\d+\/100000$/);
  });

  it('describes objects and their fields', async () => {
    const { body } = await org.data('GET', '/sobjects/Quote__c/describe');
    const field = (name: string): Parsed => body.fields.find((each: { name: string }) => each.name === name);
    assert.partialDeepStrictEqual(field('External_Id__c'), {
      type: 'string',
      length: 36,
      externalId: true,
      unique: true,
      caseSensitive: true,
      nillable: true,
      idLookup: true,
    });
    assert.partialDeepStrictEqual(field('Name__c'), { nillable: false, createable: true });
    assert.partialDeepStrictEqual(field('Details__c'), {
      type: 'textarea',
      length: 131_072,
      filterable: false,
    });
    assert.partialDeepStrictEqual(field('Member__c'), {
      referenceTo: ['Contact'],
      relationshipName: 'Member__r',
    });
    assert.partialDeepStrictEqual(field('Name'), { autoNumber: true, createable: false });
    assert.partialDeepStrictEqual(field('Status__c'), { restrictedPicklist: false, defaultedOnCreate: true });
    assert.equal((await org.data('GET', '/sobjects/Nope/describe')).status, 404);
  });
});

describe('the protocol', () => {
  it('answers 405 with the methods that there are', async () => {
    const answer = await org.data('PUT', '/sobjects/Quote__c', {});
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.get('allow'), 'POST');
    assert.equal(answer.body[0].errorCode, 'METHOD_NOT_ALLOWED');
    assert.equal((await org.data('DELETE', '/query?q=x')).status, 405);
    assert.equal((await org.data('GET', '/composite')).status, 405);
    assert.equal((await org.data('GET', '/nothing')).status, 404);
    assert.equal((await org.data('GET', '/sobjects/Quote__c/%E0%A4%A')).status, 404);
  });

  it('answers 415 for another content type', async () => {
    const answer = await org.data('POST', '/sobjects/Quote__c', 'a=b', { 'content-type': 'text/plain' });
    assert.equal(answer.status, 415);
    assert.equal(answer.body[0].errorCode, 'UNSUPPORTED_MEDIA_TYPE');
  });

  it('answers 401 without a token that lives', async () => {
    for (const authorization of ['', 'Bearer nonsense', 'Basic x']) {
      const answer = await org.data('GET', '/limits', undefined, { authorization });
      assert.equal(answer.status, 401);
      assert.deepEqual(answer.body, [
        { message: 'Session expired or invalid', errorCode: 'INVALID_SESSION_ID' },
      ]);
    }
    assert.equal(
      (await org.data('GET', '/limits', undefined, { authorization: `OAuth ${org.token}` })).status,
      200,
    );
  });

  it('refuses long URIs with 414 and long heads with 431', async () => {
    const authorization = `Bearer ${org.token}`;
    const path = (length: number): string => `${DATA}/query?q=${'x'.repeat(length)}`;
    assert.equal((await raw(path(16_000), { authorization })).status, 400);
    assert.equal((await raw(path(16_384), { authorization })).status, 414);
    assert.equal((await raw(path(8000), { authorization, 'x-filler': 'x'.repeat(8500) })).status, 431);
  });

  it('packs answers and unpacks requests', async () => {
    const soql = encodeURIComponent('SELECT Id, Name, Email FROM Contact');
    const headers = { authorization: `Bearer ${org.token}`, 'accept-encoding': 'gzip' };
    const packed = await raw(`${DATA}/query?q=${soql}`, headers);
    assert.equal(packed.encoding, 'gzip');
    assert.equal(JSON.parse(gunzipSync(packed.body).toString()).totalSize, 30);
    const send = (body: Buffer, encoding: string): Promise<Response> =>
      fetch(`${org.url}${DATA}/sobjects/Contact`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'content-encoding': encoding },
        body: new Uint8Array(body),
      });
    assert.equal((await send(gzipSync('{"LastName":"Packed"}'), 'gzip')).status, 201);
    assert.equal((await send(Buffer.from('{"LastName":"x"}'), 'gzip')).status, 400);
    assert.equal((await send(Buffer.from('{"LastName":"x"}'), 'br')).status, 415);
  });

  it('refuses calls once the day is used up, and says so as an org does', async (t) => {
    const small = await startOrg({ dailyLimit: 2 });
    t.after(async () => {
      await small.close();
    });
    assert.equal((await small.data('GET', '/limits')).status, 200);
    assert.equal((await small.data('GET', '/limits')).headers.get('sforce-limit-info'), 'api-usage=2/2');
    const answer = await small.data('GET', '/limits');
    assert.equal(answer.status, 403);
    assert.deepEqual(answer.body, [
      { message: 'TotalRequests Limit exceeded.', errorCode: 'REQUEST_LIMIT_EXCEEDED' },
    ]);
    assert.equal((await small.call('GET', '/services/data')).status, 200, 'the version list is not metered');
  });
});
