import {
  createTraceState,
  type Span as RecordedSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { monotonicMs } from '../base/chance.ts';
import type { Span, SpanAttributes, TraceContext } from '../base/span.ts';
import { inTime } from '../base/waiting.ts';
import type { Log } from './log.ts';

export interface OtlpTracingOptions {
  env: NodeJS.ProcessEnv;
  log: Log;
  version: string;
  environment: string;
  protocol: OtlpProtocol;
}

export type OtlpProtocol = 'http/protobuf' | 'http/json';

/** An unavailable collector must not hold up the stop. */
const flushMs = 3000;
/** Failed exports are logged this often at most. */
const warningIntervalMs = 60_000;

/**
 * Tracing through OpenTelemetry's SDK. Endpoint, headers, time-out, compression and certificates are read by its
 * exporter from the standard variables, and the resource by its detector.
 */
export async function openOtlpTracing(options: OtlpTracingOptions) {
  const { env, log, version, environment, protocol } = options;
  const own = resourceFromAttributes({
    'service.name': 'handoff-gateway',
    'service.version': version,
    'deployment.environment.name': environment,
  });
  const named = detectResources({ detectors: [envDetector] });
  const exporter = withWarnings(await createExporter(protocol), log);
  const provider = new TracerProvider({
    resource: defaultResource().merge(own).merge(named),
    sampler: createSampler(env, log),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('handoff-gateway', version);
  return {
    startRequest: (
      parent: TraceContext | undefined,
      describe: () => { name: string; attributes: SpanAttributes },
    ) => {
      const { name, attributes } = describe();
      const context = parent ? trace.setSpanContext(ROOT_CONTEXT, remoteContext(parent)) : ROOT_CONTEXT;
      return asSpan(tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, context), tracer);
    },
    stop: () => endInTime(provider.shutdown(), log),
  };
}

async function createExporter(protocol: OtlpProtocol): Promise<SpanExporter> {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter();
}

/**
 * OTEL_TRACES_SAMPLER and its argument. Only the samplers `parentbased_…` believe the caller whether to keep a trace;
 * the default is `always_on`, since a caller that is not authenticated yet must not decide it.
 */
function createSampler(env: NodeJS.ProcessEnv, log: Log): Sampler {
  const name = env['OTEL_TRACES_SAMPLER'] || 'always_on';
  const root = rootSampler(name.replace(/^parentbased_/, ''), env['OTEL_TRACES_SAMPLER_ARG']);
  if (root === undefined) {
    const reason = 'OTEL_TRACES_SAMPLER or OTEL_TRACES_SAMPLER_ARG has an unknown value';
    log.warn({ reason, sampler: name }, 'all traces are exported');
  }
  const sampler = root ?? new AlwaysOnSampler();
  if (name.startsWith('parentbased_')) return new ParentBasedSampler({ root: sampler });
  return new ParentBasedSampler({
    root: sampler,
    remoteParentSampled: sampler,
    remoteParentNotSampled: sampler,
  });
}

function rootSampler(name: string, argument: string | undefined): Sampler | undefined {
  if (name === 'always_on') return new AlwaysOnSampler();
  if (name === 'always_off') return new AlwaysOffSampler();
  const ratio = Number(argument || '1');
  if (name !== 'traceidratio' || !(ratio >= 0 && ratio <= 1)) return undefined;
  return new TraceIdRatioBasedSampler(ratio);
}

function remoteContext({ traceId, spanId, sampled, traceState }: TraceContext) {
  const traceFlags = sampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const state = traceState === undefined ? {} : { traceState: createTraceState(traceState) };
  return { traceId, spanId, traceFlags, isRemote: true, ...state };
}

function asSpan(recorded: RecordedSpan, tracer: Tracer): Span {
  const { traceId, spanId, traceFlags, traceState } = recorded.spanContext();
  return {
    traceId,
    spanId,
    sampled: (traceFlags & 1) === 1,
    traceState: traceState?.serialize() || undefined,
    child: (kind, name, attributes: SpanAttributes = {}) => {
      const spanKind = kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL;
      const context = trace.setSpan(ROOT_CONTEXT, recorded);
      return asSpan(tracer.startSpan(name, { kind: spanKind, attributes }, context), tracer);
    },
    set: (attributes) => void recorded.setAttributes(attributes),
    end: (failure) => {
      if (failure !== undefined) {
        recorded.setAttribute('error.type', failure);
        recorded.setStatus({ code: SpanStatusCode.ERROR });
      }
      recorded.end();
    },
  };
}

function withWarnings(exporter: SpanExporter, log: Log): SpanExporter {
  let warnedAt = Number.NEGATIVE_INFINITY;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const isDue = monotonicMs() - warnedAt > warningIntervalMs;
        if (result.error !== undefined && isDue) {
          warnedAt = monotonicMs();
          log.warn({ reason: result.error.message, spans: spans.length }, "couldn't export traces");
        }
        done(result);
      }),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    shutdown: () => exporter.shutdown(),
  };
}

async function endInTime(flush: Promise<void>, log: Log): Promise<void> {
  const late = () => new Error('the collector took too long');
  await inTime(flush, flushMs, late).catch((error: unknown) => {
    log.warn({ reason: String(error) }, "couldn't export the last traces");
  });
}
