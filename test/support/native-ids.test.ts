import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { useGateway } from './gateway.ts';
import { findNativeIds, recordAnswers } from './native-ids.ts';

describe('the search for native identifiers', () => {
  const gateway = useGateway();

  test('finds those of the simulated org, long and short, in bodies and headers', async () => {
    const [member] = await gateway.org.records('Contact', { External_Id__c: gateway.org.memberId });
    const id = String(member?.Id);
    for (const path of ['/v1/quotes', '/v1/healthz', '/api/v1/handoff']) {
      assert.deepEqual(findNativeIds(path, `{"detail":"see ${id}"}`), [id.slice(0, 15)], path);
      assert.deepEqual(findNativeIds(path, `/v1/members/${id.slice(0, 15)}`), [id.slice(0, 15)], path);
    }
    assert.deepEqual(findNativeIds('/api/v1/handoff', `{"id":"${id}","external_id":"x"}`), []);
    assert.deepEqual(findNativeIds('/v1/quotes', `{"id":"${id}"}`), [id.slice(0, 15)]);
    const recorder = recordAnswers();
    recorder.keep('GET', '/v1/quotes', new Response('{}', { headers: { location: `/v1/quotes/${id}` } }));
    await assert.rejects(recorder.assertNoNativeIds(), /GET \/v1\/quotes 200/);
  });
});
