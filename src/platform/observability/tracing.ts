import { type Span, type SpanAttributes, startPlainSpan, type TraceContext } from '../base/span.ts';
import type { OtlpProtocol, OtlpTracingOptions } from './otlp-tracing.ts';

export interface Tracing {
  /** Begins the span of a request; `parent` is what the caller sent. The description is made only if it is recorded. */
  startRequest(
    parent: TraceContext | undefined,
    describe: () => { name: string; attributes: SpanAttributes },
  ): Span;
  /** Sends what is recorded, for a few seconds at most. */
  stop(): Promise<void>;
}

export const plainTracing: Tracing = {
  startRequest: (parent) => startPlainSpan(parent),
  stop: async () => {},
};

const protocols: readonly OtlpProtocol[] = ['http/protobuf', 'http/json'];

/**
 * Tracing as OpenTelemetry's variables configure it. With an OTLP endpoint, spans are sent there; otherwise nothing of
 * OpenTelemetry is loaded. A configuration that the service does not support is logged and leaves tracing off: no
 * request depends on it.
 */
export async function openTracing(options: Omit<OtlpTracingOptions, 'protocol'>): Promise<Tracing> {
  const { env, log } = options;
  const endpoint = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  const exporter = env['OTEL_TRACES_EXPORTER'] || 'otlp';
  if (!endpoint || env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || exporter === 'none')
    return plainTracing;
  const protocol =
    env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'] || 'http/protobuf';
  const obstacle = obstacleTo(endpoint, exporter, protocol);
  if (obstacle !== undefined) {
    log.warn({ reason: obstacle }, "traces aren't exported");
    return plainTracing;
  }
  const { openOtlpTracing } = await import('./otlp-tracing.ts');
  return openOtlpTracing({ ...options, protocol: protocol as OtlpProtocol });
}

/** Obstacle to the export of traces, in words; names variables, and no value that may hold a secret. */
function obstacleTo(endpoint: string, exporter: string, protocol: string): string | undefined {
  if (exporter !== 'otlp') return `OTEL_TRACES_EXPORTER is "${exporter}"; set it to otlp or none`;
  if (!protocols.some((known) => known === protocol))
    return `OTEL_EXPORTER_OTLP_PROTOCOL is "${protocol}"; set it to ${protocols.join(' or ')}`;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    return "OTEL_EXPORTER_OTLP_ENDPOINT isn't an http or https URL";
  return undefined;
}
