import { type Span, type SpanAttributes, startPlainSpan } from '../base/span.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { Log } from './log.ts';

/** Traces of the service: recorded where the standard variables ask for it, else only carried on. */
export interface Tracing {
  /** Begins the span of a request; `parent` is what the caller sent. Only who records it asks for its description. */
  startRequest(parent: TraceContext | undefined, describe: () => SpanDescription): Span;
  /** Sends what is recorded, for a few seconds at most. */
  stop(): Promise<void>;
}

export interface SpanDescription {
  name: string;
  attributes: SpanAttributes;
}

/** Nothing is recorded: ids for the log and for the systems that are called. */
export const plainTracing: Tracing = {
  startRequest: (parent) => startPlainSpan(parent),
  stop: async () => {},
};

const protocols = ['http/protobuf', 'http/json'] as const;
export type OtlpProtocol = (typeof protocols)[number];

export interface TracingOptions {
  env: NodeJS.ProcessEnv;
  log: Log;
  /** Of this program. */
  version: string;
  /** `dev`, `staging` or `prod`. */
  environment: string;
}

/**
 * Tracing as the variables of OpenTelemetry say: with an OTLP endpoint spans are sent there, otherwise nothing of
 * OpenTelemetry is even loaded. What the service cannot do is told in the log and leaves tracing off: a request never
 * depends on it.
 */
export async function openTracing(options: TracingOptions): Promise<Tracing> {
  const { env, log } = options;
  const endpoint = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  const exporter = env['OTEL_TRACES_EXPORTER'] || 'otlp';
  if (!endpoint || env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || exporter === 'none')
    return plainTracing;
  const protocol =
    env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'] || 'http/protobuf';
  const obstacle = obstacleTo(endpoint, exporter, protocol);
  if (obstacle !== undefined) {
    log.warn({ reason: obstacle }, 'traces are not exported');
    return plainTracing;
  }
  const { openOtlpTracing } = await import('./otlp-tracing.ts');
  return openOtlpTracing({ ...options, protocol: protocol as OtlpProtocol });
}

/** What keeps traces from being exported, in words; names variables, and no value that may hold a secret. */
function obstacleTo(endpoint: string, exporter: string, protocol: string): string | undefined {
  if (exporter !== 'otlp') return `OTEL_TRACES_EXPORTER is "${exporter}"; set it to otlp or none`;
  if (!protocols.some((known) => known === protocol))
    return `OTEL_EXPORTER_OTLP_PROTOCOL is "${protocol}"; set it to ${protocols.join(' or ')}`;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    return 'OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL';
  return undefined;
}
