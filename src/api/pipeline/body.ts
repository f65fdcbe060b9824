import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Problem } from '../../base/problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body's bytes as they came; empty where there is none. */
    bodyBytes: Buffer;
    /** The same as text. */
    bodyText: string;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });
const none = Buffer.alloc(0);

/** Reads JSON bodies, keeping their bytes and text; every other content type is refused by the framework. */
export function readJsonBodies(app: FastifyInstance): void {
  app.decorateRequest('bodyText', '');
  app.decorateRequest('bodyBytes', { getter: () => none });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer) => {
      Object.defineProperty(request, 'bodyBytes', { value: body });
      request.bodyText = decode(body);
      return parse(request.bodyText);
    },
  );
}

function decode(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw new Problem('malformed_json', 'The body is not UTF-8 text.', { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message quotes the text around the fault; what it says may be personal data, so only the place is told.
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0];
    throw new Problem('malformed_json', `The body is not JSON${place ? `: the fault is ${place}` : ''}.`);
  }
}
