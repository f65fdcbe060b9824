import { randomBytes } from './chance.ts';

export interface TraceContext {
  /** 32 hexadecimal digits, lower case, not all zero. */
  readonly traceId: string;
  /** Id of the parent span; 16 hexadecimal digits, not all zero. */
  readonly spanId: string;
  readonly sampled: boolean;
  /** Entries of other vendors in `tracestate`; passed on unchanged. */
  readonly traceState: string | undefined;
}

/** Version 00 has exactly these fields; later ones may append more. */
const traceParent = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const zeros = /^0+$/;

/** Longest `tracestate` that is passed on: the least that the standard asks for. */
const maxTraceStateLength = 512;
const maxTraceStateEntries = 32;
/** `key=value`, where the key may name its tenant: W3C Trace Context level 2, section 3.3.1.3. */
const traceStateEntry =
  /^(?:[a-z\d][a-z\d_*/-]{0,255}|[a-z\d][a-z\d_*/-]{0,240}@[a-z][a-z\d_*/-]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/**
 * The context of a caller from its headers; undefined where `traceparent` is missing or not valid, and then
 * `tracestate` counts for nothing either. A `tracestate` that is not valid or too long is left out.
 */
export function readTraceContext(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): TraceContext | undefined {
  const { traceparent, tracestate } = headers;
  const parts = typeof traceparent === 'string' ? traceParent.exec(traceparent) : null;
  if (parts === null) return undefined;
  const [version, traceId, spanId, flags, more] = parts.slice(1) as [string, string, string, string, string?];
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (zeros.test(traceId) || zeros.test(spanId)) return undefined;
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, sampled, traceState: readTraceState(tracestate) };
}

export function traceHeaders({ traceId, spanId, sampled, traceState }: TraceContext): Record<string, string> {
  const traceparent = `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
  return traceState === undefined ? { traceparent } : { traceparent, tracestate: traceState };
}

function readTraceState(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join() : header;
  if (text === undefined || text.length > maxTraceStateLength) return undefined;
  const entries = text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  const keys = new Set(entries.map((entry) => entry.slice(0, entry.indexOf('='))));
  const isValid =
    entries.length > 0 &&
    entries.length <= maxTraceStateEntries &&
    keys.size === entries.length &&
    entries.every((entry) => traceStateEntry.test(entry));
  return isValid ? entries.join() : undefined;
}

/** Facts of a span, by the names of OpenTelemetry's conventions or `handoff.…`. Never a secret, a query or a body. */
export type SpanAttributes = Record<string, string | number | boolean>;

export interface Span extends TraceContext {
  /** Work done for this one: `client` where another system is called, `internal` else. */
  child(kind: 'client' | 'internal', name: string, attributes?: SpanAttributes): Span;
  set(attributes: SpanAttributes): void;
  /** Ends it, once; `failure` is the kind of error (few values), left out where all went well. */
  end(failure?: string): void;
}

export function startPlainSpan(parent?: TraceContext): Span {
  return new PlainSpan(parent);
}

class PlainSpan implements Span {
  readonly traceId: string;
  readonly spanId = randomDigits(16);
  readonly sampled: boolean;
  readonly traceState: string | undefined;

  constructor(parent: TraceContext | undefined) {
    this.traceId = parent?.traceId ?? randomDigits(32);
    // The caller decides: this span is not recorded.
    this.sampled = parent?.sampled ?? false;
    this.traceState = parent?.traceState;
  }

  /** A child would not be recorded either, so called systems get this one as parent. */
  child(): Span {
    return this;
  }

  set(): void {}

  end(): void {}
}

/** Random bytes that are made at once: to make those of each id costs more than all else that is done with it. */
const stockBytes = 4096;
let stock = '';
let used = 0;

/** This many random hexadecimal digits. No two ids share any; that all 16 of one are zero is as good as impossible. */
function randomDigits(count: number): string {
  if (used + count > stock.length) {
    stock = randomBytes(stockBytes).toString('hex');
    used = 0;
  }
  used += count;
  return stock.slice(used - count, used);
}
