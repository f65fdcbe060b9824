import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, request } from 'undici';
import { timeoutSignal } from '../base/chance.ts';
import { AddressFailure, type CheckedAddresses } from './checked-addresses.ts';

/** Why there was no answer: all that the owner of the URL may learn. */
type OutboundFailureKind = 'dns' | 'blocked_address' | 'tls' | 'timeout' | 'connection';

/** No answer. The message is the kind alone. */
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
  /** Gives the request up. */
  signal?: AbortSignal;
}

interface OutboundAnswer {
  status: number;
  /** The header Retry-After, where there is one. */
  retryAfter: string | undefined;
}

/** Requests to URLs that others have named. */
export interface OutboundHttp {
  /**
   * Sends a body, and waits for the head of the answer; follows no redirect, and uses no proxy of the environment. Throws
   * `OutboundFailure`, and the reason of the signal.
   */
  post(request: OutboundRequest): Promise<OutboundAnswer>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

/** Bytes of an answer that are read at most, so that its connection can be used again. */
const maxAnswerBytes = 64 * 1024;

/** `timeoutMs`: for everything, from looking up the name to the last byte that is read. */
export function createOutboundHttp(addresses: CheckedAddresses, timeoutMs: number): OutboundHttp {
  const agent = createAgent(addresses, timeoutMs);
  return {
    async post({ signal: given, ...wanted }) {
      if (addresses.faultOfText(wanted.url) !== undefined) throw new OutboundFailure('blocked_address');
      const late = timeoutSignal(timeoutMs);
      const signal = given ? AbortSignal.any([given, late]) : late;
      try {
        const answer = await send(agent, wanted, signal);
        const [retryAfter] = [answer.headers['retry-after']].flat();
        // The status is the answer, whatever becomes of the rest.
        await answer.body.dump({ limit: maxAnswerBytes, signal }).catch(() => undefined);
        return { status: answer.statusCode, retryAfter };
      } catch (error) {
        given?.throwIfAborted();
        throw late.aborted ? new OutboundFailure('timeout') : asFailure(error);
      }
    },
    close: () => agent.destroy(),
  };
}

function send(agent: Agent, wanted: Omit<OutboundRequest, 'signal'>, signal: AbortSignal) {
  const { url, headers, body } = wanted;
  return request(url, { dispatcher: agent, method: 'POST', headers, body, signal });
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
