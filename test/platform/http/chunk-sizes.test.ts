import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { ChunkSizes } from '../../../src/platform/http/chunk-sizes.ts';
import { answerLimits, limitConnections, trackedResponses } from '../../../src/platform/http/connections.ts';
import { connectRaw } from '../../support/raw-client.ts';

/** Data that looks like ends of heads, and like last chunks. */
const data = fc.array(fc.constantFrom('\r\n', '0\r\n\r\n', '\r\n0\r\n\r\n', 'a', 'f;', '\0'), {
  minLength: 1,
});
const sizeOf = (text: string, upper: boolean, zeros: number) => {
  const hex = text.length.toString(16);
  return '0'.repeat(zeros) + (upper ? hex.toUpperCase() : hex);
};
const extension = fc.constantFrom('', ';a', ';0=0', ';a="\t1f;"');
const chunk = fc.tuple(data, fc.boolean(), fc.nat(3), extension).map(([parts, upper, zeros, more]) => {
  const text = parts.join('');
  return `${sizeOf(text, upper, zeros)}${more}\r\n${text}\r\n`;
});
const lastLine = fc
  .tuple(fc.integer({ min: 1, max: 3 }), extension)
  .map(([zeros, more]) => '0'.repeat(zeros) + more);

describe('the sizes of chunks', () => {
  it('lead to the end of the last one’s line, wherever the network cuts', () => {
    const cuts = fc.array(fc.nat(400), { maxLength: 20 });
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 8 }), lastLine, cuts, (chunks, last, cutAt) => {
        const body = `${chunks.join('')}${last}`;
        const sent = Buffer.from(`${body}\r\n\r\nGET / HTTP/1.1\r\n\r\n`, 'latin1');
        const sizes = new ChunkSizes();
        let from = 0;
        for (const to of [...cutAt, sent.length].sort((a, b) => a - b)) {
          const part = sent.subarray(from, to);
          const length = sizes.follow(part);
          from += length;
          if (length < part.length) break;
        }
        assert.equal(from, body.length);
      }),
    );
  });
});

describe('a body in chunks', () => {
  let server: Server;
  let pieces = 0;

  before(async () => {
    server = createServer(trackedResponses, (request, response) => {
      let length = 0;
      request.on('data', (piece: Buffer) => {
        pieces += 1;
        length += piece.length;
      });
      request.on('end', () => response.end(String(length)));
    });
    limitConnections(server, 'connection', { ...answerLimits, max: 10, originOf: (address) => address });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  after(() => server.close());

  for (const end of ['\r\n\r\n', '0\r\n\r\n', '\r\n0\r\n\r\n'])
    it(`is parsed in few pieces, though it consists of ${JSON.stringify(end)}`, async () => {
      const client = await connectRaw(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      const text = end.repeat(64 * 1024);
      pieces = 0;
      client.write('POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n');
      client.write(`${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`);
      assert.equal(String((await client.answer())?.body), String(text.length));
      // One for each read, which the network may cut.
      assert.ok(pieces < 500, `${pieces} pieces`);
      client.socket.destroy();
    });
});
