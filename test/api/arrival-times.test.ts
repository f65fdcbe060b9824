import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Type } from 'typebox';
import { defineRoute, json } from '../../src/api/route.ts';
import type { ArrivalTimes } from '../../src/api/server.ts';
import { type Certificates, createCertificates } from '../support/certificates.ts';
import { connectRaw } from '../support/raw-client.ts';
import { assertFitsDocument } from './document-check.ts';
import {
  type MadeUpServer,
  openRoute,
  startMadeUpServerWith,
  startSecureMadeUpServer,
} from './made-up-server.ts';

const echo = defineRoute({
  ...openRoute,
  method: 'POST',
  path: '/echo',
  operationId: 'echo',
  request: { body: Type.Object({}) },
  handle: async () => json(200, {}),
});

for (const isSecure of [false, true]) {
  describe(`a request that does not arrive, ${isSecure ? 'over TLS' : 'without TLS'}`, () => {
    let server: MadeUpServer;
    /** With short time limits, for heads that never arrive: others may be late on a machine that stalls. */
    let shortLimits: MadeUpServer;
    let certificates: Certificates;

    before(async () => {
      certificates = await createCertificates();
      // The body's own time is over long before that of the request.
      server = await start({ headMs: 5000, bodyMs: 300, requestMs: 5000, checkMs: 20 });
      shortLimits = await start({ headMs: 300, bodyMs: 300, requestMs: 3000, checkMs: 20 });
    });
    after(async () => {
      await server.stop();
      await shortLimits.stop();
      await certificates.remove();
    });

    function start(arrivalTimes: ArrivalTimes): Promise<MadeUpServer> {
      const options = { routes: [echo], arrivalTimes };
      return isSecure ? startSecureMadeUpServer(certificates, options) : startMadeUpServerWith(options);
    }

    const head = 'POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';

    for (const [what, bytes] of [
      ['head', head],
      ['body', `${head}content-length: 2\r\n\r\n{`],
      ['body in chunks', `${head}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n`],
    ] as const) {
      test(`is answered with 408 and cut off: the ${what}`, async () => {
        const client = await connectRaw((bytes === head ? shortLimits : server).url);
        client.write(bytes);
        const answer = await client.answer();
        assert.equal(answer?.status, 408);
        assert.equal(answer.headers['connection'], 'close');
        assert.equal((JSON.parse(String(answer.body)) as { status: number }).status, 408);
        const { status, headers, body } = answer;
        // Any operation with a body: they all document it.
        await assertFitsDocument('/v1/quotes', { method: 'POST' }, new Response(body, { status, headers }));
        assert.equal(await client.answer(), undefined);
        client.socket.destroy();
      });
    }

    test('is cut off however slowly its head comes, and without an answer where nothing comes', async () => {
      const [trickling, silent] = [await connectRaw(shortLimits.url), await connectRaw(shortLimits.url)];
      trickling.write(head);
      const writing = setInterval(() => trickling.write('a: b\r\n'), 20);
      assert.equal((await trickling.answer())?.status, 408);
      clearInterval(writing);
      assert.equal(await silent.answer(), undefined);
      for (const { socket } of [trickling, silent]) socket.destroy();
    });

    test('is cut off after its answer, too, and gets no second one', async () => {
      const client = await connectRaw(server.url);
      client.write('POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{');
      assert.equal((await client.answer())?.status, 404);
      assert.equal(await client.answer(), undefined);
      client.socket.destroy();
    });

    test('is logged with 408, with its endpoint where it had a head', () => {
      const statuses = server.logLines.map(({ facts }) => facts['status']).filter(Boolean);
      assert.deepEqual(statuses, [408, 408, 404]);
      const early = shortLimits.logLines.filter(({ facts }) => facts['status']);
      assert.deepEqual(
        early.map(({ facts: { endpoint, status } }) => [endpoint, status]),
        [
          ['none', 408],
          ['none', 408],
        ],
      );
      assert.ok(![...server.logLines, ...shortLimits.logLines].some(({ level }) => level === 'error'));
    });
  });
}
