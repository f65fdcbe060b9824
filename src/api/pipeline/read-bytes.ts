import type { IncomingMessage } from 'node:http';
import { clearTimeout, setTimeout } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { bodyTooLarge } from './framework-errors.ts';

/** Bytes to begin with for a body whose length is not known. */
const firstBytes = 16_384;

interface Bounds {
  announced: number;
  /** Bytes at most. */
  limit: number;
  /** Milliseconds for all of it. */
  timeoutMs: number;
}

const readings = new WeakMap<IncomingMessage, (problem: Problem) => void>();

export function failReading(request: IncomingMessage, problem: Problem): boolean {
  const fail = readings.get(request);
  fail?.(problem);
  return fail !== undefined;
}

/**
 * The bytes of a body. Throws `Problem` where there are too many of them, where they take too long, or where the client
 * hangs up. They are copied into one buffer as they come: a body in very small chunks takes no more memory than another.
 */
export function readBytes(
  request: IncomingMessage,
  { announced, limit, timeoutMs }: Bounds,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.allocUnsafe(announced || firstBytes);
    let length = 0;
    const end = (finish: () => void) => {
      clearTimeout(timeout);
      readings.delete(request);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      finish();
    };
    const fail = (problem: Problem) => end(() => reject(problem));
    const onData = (chunk: Buffer) => {
      const wanted = length + chunk.length;
      if (wanted > limit) return fail(bodyTooLarge(limit));
      if (wanted > bytes.length) bytes = enlarge(bytes, Math.min(limit, Math.max(wanted, 2 * bytes.length)));
      chunk.copy(bytes, length);
      length = wanted;
    };
    const onEnd = () => end(() => resolve(bytes.subarray(0, length)));
    const onClose = () => fail(hungUp());
    const timeout = setTimeout(() => fail(tooSlow()), timeoutMs);
    // A client may hang up before the reading begins, and then there are no events any more.
    if (request.destroyed) return onClose();
    readings.set(request, fail);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

export function tooSlow(): Problem {
  return new Problem('invalid_request', 'The request did not arrive in time.', { status: 408 });
}

/** No caller sees it: it ends the work on the request, and is no error of the service. */
export function hungUp(): Problem {
  return new Problem('invalid_request', 'The caller hung up before the work on its request began.');
}

function enlarge(bytes: Buffer, size: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafe(size);
  bytes.copy(larger);
  return larger;
}
