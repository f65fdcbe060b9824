import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, request } from 'undici';
import { now, timeoutSignal } from '../base/chance.ts';
import { AddressFailure, type CheckedAddresses } from './checked-addresses.ts';
import { sendInTime } from './http.ts';

/** Why there was no answer: all that the owner of the URL may learn. */
type OutboundFailureKind = 'dns' | 'blocked_address' | 'tls' | 'timeout' | 'connection';

export class OutboundFailure extends Error {
  override readonly name = 'OutboundFailure';
  readonly kind: OutboundFailureKind;

  constructor(kind: OutboundFailureKind) {
    super(kind);
    this.kind = kind;
  }
}

interface OutboundRequest {
  url: string;
  headers: Record<string, string>;
  body: Buffer | string;
  signal?: AbortSignal;
  /** Milliseconds of `now()` by which all must be over. */
  deadline: number;
}

/** Too little time was left to send it, or to hear its outcome. */
export class TooLate extends Error {}

/** Bytes of an answer that are read at most, so that its connection can be used again. */
const maxAnswerBytes = 64 * 1024;

/** `timeoutMs`: for everything, from looking up the name to the last byte that is read. */
export function createOutboundHttp(addresses: CheckedAddresses, timeoutMs: number) {
  const agent = createAgent(addresses, timeoutMs);
  const dispatcher = agent.compose(sendInTime);
  return {
    /**
     * Sends a body, and waits for the head of the answer; follows no redirect, and uses no proxy of the environment. Throws
     * `OutboundFailure`, `TooLate`, and the reason of the signal.
     */
    async post({
      signal: given,
      deadline,
      ...wanted
    }: OutboundRequest): Promise<{ status: number; retryAfter: string | undefined }> {
      // The owner of the URL has all of its time to answer.
      if (now() + timeoutMs > deadline) throw new TooLate();
      if (addresses.faultOfText(wanted.url) !== undefined) throw new OutboundFailure('blocked_address');
      const late = timeoutSignal(timeoutMs);
      const signal = given ? AbortSignal.any([given, late]) : late;
      try {
        const answer = await send(dispatcher, wanted, { signal, sendBefore: deadline });
        const [retryAfter] = [answer.headers['retry-after']].flat();
        // The status is the answer, whatever becomes of the rest.
        await answer.body.dump({ limit: maxAnswerBytes, signal }).catch(() => undefined);
        return { status: answer.statusCode, retryAfter };
      } catch (error) {
        given?.throwIfAborted();
        if (now() >= deadline) throw new TooLate();
        throw late.aborted ? new OutboundFailure('timeout') : asFailure(error);
      }
    },
    close: (): Promise<void> => agent.destroy(),
  };
}

export type OutboundHttp = ReturnType<typeof createOutboundHttp>;

function send(
  dispatcher: Dispatcher,
  { url, headers, body }: Pick<OutboundRequest, 'url' | 'headers' | 'body'>,
  limits: { signal: AbortSignal; sendBefore: number },
) {
  return request(url, { dispatcher, method: 'POST', headers, body, ...limits });
}

/** A kept connection leads where it was made to. */
function createAgent(addresses: CheckedAddresses, timeoutMs: number): Agent {
  const lookup: LookupFunction = (name, { all }, answer) => {
    const use = (found: readonly string[]) => {
      const [first, ...others] = found.map((address) => ({ address, family: isIP(address) }));
      if (first === undefined) answer(new AddressFailure('dns'), '');
      else if (all) answer(null, [first, ...others]);
      else answer(null, first.address, first.family);
    };
    addresses.of(name).then(use, (error: Error) => answer(error, ''));
  };
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false, lookup, autoSelectFamily: true });
  return new Agent({
    connect: (options, connected) => {
      // An address is not looked up, so that it would go unchecked.
      const checked = isIP(options.hostname) === 0 ? Promise.resolve() : addresses.of(options.hostname);
      checked.then(
        () => connect(options, connected),
        (error: Error) => connected(error, null),
      );
    },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    pipelining: 1,
  });
}

const tlsCode = /CERT|TLS|SSL|^UNABLE_TO_|^EPROTO$/;

function asFailure(error: unknown): OutboundFailure {
  if (error instanceof AddressFailure) return new OutboundFailure(error.kind);
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (tlsCode.test(code)) return new OutboundFailure('tls');
  return new OutboundFailure(code.endsWith('TIMEOUT') || code === 'ETIMEDOUT' ? 'timeout' : 'connection');
}
