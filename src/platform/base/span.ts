import { randomBytes } from './chance.ts';
import type { TraceContext } from './trace-context.ts';

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

/** So many random hexadecimal digits. No two ids share any; that all 16 of one are zero is as good as impossible. */
function randomDigits(count: number): string {
  if (used + count > stock.length) {
    stock = randomBytes(stockBytes).toString('hex');
    used = 0;
  }
  used += count;
  return stock.slice(used - count, used);
}
