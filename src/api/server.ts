import { createServer as createPlainServer, METHODS, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { parse } from 'node:querystring';
import { AjvCompiler } from '@fastify/ajv-compiler';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HookHandlerDoneFunction,
  type RawServerDefault,
} from 'fastify';
import { Type } from 'typebox';
import type { AttemptRecorder } from '../identity/audit/attempt.ts';
import type { Authenticate, BearerTokens, Sessions } from '../identity/consumers/authentication.ts';
import { monotonicMs } from '../platform/base/chance.ts';
import { currentSchema, noExample } from '../platform/base/current-schema.ts';
import { compileNetworks, isAddressOrNetwork, networkOf } from '../platform/base/networks.ts';
import { Problem } from '../platform/base/problem.ts';
import {
  type ConnectionEnd,
  type ConnectionLimits,
  limitConnections,
  type OriginOf,
  trackedResponses,
} from '../platform/http/connections.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import type { Tracing } from '../platform/observability/tracing.ts';
import { followConnections } from './connections/lingering-close.ts';
import type { Ledger } from './idempotency/ledger.ts';
import { send } from './pipeline/answer.ts';
import { answerErrors, answerSocketErrors } from './pipeline/answer-errors.ts';
import {
  type Authenticators,
  admitByForm,
  admitByHeaders,
  admitBySignature,
  admitOpenly,
  boundSignedBody,
  countOpenly,
  requireByBody,
} from './pipeline/authentication.ts';
import { forgetTypeOfEmptyBody, leavesMuchUnread, maxBodyBytes, readBodies } from './pipeline/body.ts';
import { takeOverCount } from './pipeline/pass-on.ts';
import type { Limits } from './pipeline/rate-limit.ts';
import { readActor, readIdempotencyKey, refuseUnknownPaths, requireHost } from './pipeline/request-head.ts';
import { observeRefused, observeRequests, requestIdOf } from './pipeline/request-log.ts';
import { runRoute } from './pipeline/run-route.ts';
import {
  boundFaults,
  formats,
  readOnlyFields,
  readQueryValues,
  requireBody,
} from './pipeline/schema-faults.ts';
import { SecretWrites } from './pipeline/secret-writes.ts';
import { deprecationHeaders, type Route, type Step } from './route.ts';
import { checkWithoutTls } from './tls/client-certificates.ts';
import type { TlsServer } from './tls/tls-server.ts';

export interface ServerOptions {
  routes: readonly Route[];
  authenticate: Authenticate;
  /** Undefined: no tokens are issued. */
  tokens?: BearerTokens | undefined;
  /** Undefined: nobody can sign in. */
  sessions?: Sessions | undefined;
  attempts: AttemptRecorder;
  limits: Limits;
  ledger: Ledger;
  log: Log;
  metrics: Metrics;
  tracing: Tracing;
  trustProxies: readonly string[];
  connections: ConnectionLimits;
  /** Undefined: the port speaks plain HTTP. */
  tls: TlsServer | undefined;
  isStopping: () => boolean;
  arrivalTimes?: ArrivalTimes;
}

export type Server = FastifyInstance;

export interface ArrivalTimes {
  headMs: number;
  bodyMs: number;
  requestMs: number;
  checkMs: number;
}

const usualArrivalTimes: ArrivalTimes = { headMs: 15_000, bodyMs: 30_000, requestMs: 60_000, checkMs: 1000 };
const keepAliveTimeout = 72_000;
/** Bytes of request line and headers at most; beyond that the answer is 431. */
const maxHeaderSize = 16_384;

const compile = AjvCompiler()(
  {},
  {
    customOptions: { allErrors: true, coerceTypes: false, removeAdditional: false, useDefaults: false },
    // After creation: the framework adds its own formats then, and would replace ours of the same name.
    onCreate: (ajv) => {
      for (const [name, isRight] of Object.entries(formats)) ajv.addFormat(name, isRight);
      // For the documentation only.
      for (const keyword of [currentSchema, noExample]) ajv.addKeyword(keyword);
    },
  },
);
const validators = new Map<string, ReturnType<typeof compile>>();

/** Most routes share their schemas with others, and to compile one takes milliseconds. */
function compileOnce(schema: object): ReturnType<typeof compile> {
  const json = JSON.stringify(schema);
  const validate = validators.get(json) ?? compile({ schema });
  validators.set(json, validate);
  return validate;
}

export function createServer(options: ServerOptions): Server {
  const { routes, log, arrivalTimes = usualArrivalTimes } = options;
  const app = Fastify({
    logger: false,
    genReqId: requestIdOf,
    bodyLimit: maxBodyBytes,
    serverFactory: (handler: RequestListener) => openServer(options, handler),
    // Requests that arrive on open connections while stopping are still answered.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: options.trustProxies.length > 0 ? [...options.trustProxies] : false,
    // The router would answer by itself to a parameter that is too long: its schema checks it instead.
    routerOptions: { maxParamLength: maxHeaderSize, querystringParser: parseQuery },
    clientErrorHandler: (error, socket) => answerSocketError(error, socket),
    frameworkErrors: (error, request, reply) => {
      observeRefused(request, reply, options);
      // No hook runs for it, and its body is not read.
      reply.header('connection', 'close');
      answerError(error, request, reply);
    },
  });
  app.setValidatorCompiler(({ schema }: { schema: object }) => compileOnce(schema));
  const connections = followConnections(app.server, connectionEvent(options));
  const answerSocketError = answerSocketErrors(connections, options);
  const answerError = answerErrors(countOpenly(authenticatorsOf(options)), log, options.tokens);
  for (const name of [
    'consumer',
    'limitRefusal',
    'attempt',
    'call',
    'idempotencyKey',
    'actor',
    'unlessMade',
    'signatureFault',
  ])
    app.decorateRequest(name);
  app.decorateRequest('isCounted', false);
  app.decorateRequest('isPassedOn', false);
  app.addHook('preClose', () => connections.stop());
  if (options.tls) endUnusedConnectionsOnClose(app);
  readBodies(app, connections, arrivalTimes.bodyMs);
  observeRequests(app, options);
  app.addHook(
    'onRequest',
    inOrder([takeOverCount, requireHost, refuseUnknownPaths(routes.map(({ path }) => path))]),
  );
  closeConnections(app, options);
  app.setErrorHandler(answerError);
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method) && method !== 'CONNECT') app.addHttpMethod(method);
  }
  const secretWrites = new SecretWrites();
  for (const route of routes) register(app, route, options, secretWrites);
  answerOtherMethods(app, routes, options);
  return app;
}

function settingsOf({ headMs, requestMs, checkMs }: ArrivalTimes) {
  return {
    maxHeaderSize,
    headersTimeout: headMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: checkMs,
    keepAliveTimeout,
    // Node would answer a request without a Host header by itself, past limits and log.
    requireHostHeader: false,
  };
}

/** The framework passes none of its settings to a server that it did not make. */
function openServer(options: ServerOptions, handler: RequestListener): RawServerDefault {
  const { tls, connections, arrivalTimes = usualArrivalTimes } = options;
  const settings = { ...settingsOf(arrivalTimes), ...trackedResponses };
  const server = tls ? tls.createServer(settings, handler) : createPlainServer(settings, handler);
  const limits = { ...connections, originOf: originsOf(options.trustProxies) };
  limitConnections(server, connectionEvent(options), limits, reportConnections(options, connections));
  return server;
}

function connectionEvent({ tls }: ServerOptions): 'connection' | 'secureConnection' {
  return tls ? 'secureConnection' : 'connection';
}

function closeConnections(app: FastifyInstance, { isStopping }: ServerOptions): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    // Also for requests from before the stop: a connection left open would outlive the service.
    if (isStopping() || leavesMuchUnread(request.raw)) reply.header('connection', 'close');
    done(null, payload);
  });
}

function register(
  app: FastifyInstance,
  route: Route,
  options: ServerOptions,
  secretWrites: SecretWrites,
): void {
  const { ledger } = options;
  const { params, query, body } = route.request;
  const authenticators = authenticatorsOf(options);
  app.route({
    method: route.method,
    url: route.path,
    bodyLimit: route.maxBodyBytes ?? maxBodyBytes,
    config: {
      isSigned: route.signature !== undefined,
      readOnlyFields: readOnlyFields(route),
      takesForm: route.form !== undefined,
      authenticateForm: route.form?.authenticate,
      passesOn: route.passesOn,
      answerProblem: route.answerProblem,
    },
    schema: {
      ...(params && { params }),
      ...(body && { body }),
      // Without a declared query, every query parameter is refused.
      querystring: query ?? Type.Object({}, { additionalProperties: false }),
    },
    onRequest: inOrder([
      announceEnd(route),
      admitOpenly(route, authenticators),
      boundSignedBody(route),
      forgetTypeOfEmptyBody(route),
      admitByHeaders(route, authenticators),
    ]),
    preValidation: inOrder([
      admitBySignature(route, authenticators),
      admitByForm(route, authenticators),
      requireBody(route),
      requireByBody(route),
      readIdempotencyKey(route),
      readActor(route),
      readQueryValues(route.request),
      boundFaults(route),
    ]),
    attachValidation: route.tellsFaults === true,
    handler: runRoute({ route, ledger, secretWrites }),
  });
}

/** Steps, in their order, as one hook of the framework. */
function inOrder(given: readonly (Step | undefined)[]) {
  const steps = given.filter((step) => step !== undefined);
  const run = (from: number, request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    for (let index = from; index < steps.length; index++) {
      const pending = steps[index]?.(request, reply);
      if (pending !== undefined) return pending.then(() => run(index + 1, request, reply));
    }
    return undefined;
  };
  // The framework goes on when it is called back, or when the promise is kept.
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => {
    const pending = run(0, request, reply);
    if (pending === undefined) done();
    return pending;
  };
}

function authenticatorsOf({ authenticate, sessions, tls, limits, ledger }: ServerOptions): Authenticators {
  const { isUnfinished } = ledger;
  return { authenticate, sessions, certificates: tls?.certificates ?? checkWithoutTls, limits, isUnfinished };
}

/** First, so that errors have the headers too. */
function announceEnd({ deprecation }: Route): Step | undefined {
  const headers = deprecation && deprecationHeaders(deprecation);
  return headers && ((_, reply) => void reply.headers(headers));
}

function answerOtherMethods(app: FastifyInstance, routes: readonly Route[], options: ServerOptions): void {
  for (const [url, methods] of groupByPath(routes)) {
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].sort();
    const others = app.supportedMethods.filter((method) => !allow.includes(method));
    app.route({
      method: 'OPTIONS',
      url,
      onRequest: [
        inOrder([countOpenly(authenticatorsOf(options))]),
        // Answered here: a handler would run after the body is read.
        (_, reply) => void send(reply, { status: 204, headers: { allow: allow.join(', ') } }),
      ],
      handler: async () => undefined,
    });
    app.route({
      method: others,
      url,
      onRequest: async ({ method }) => {
        throw new Problem('method_not_allowed', `${method} isn't allowed here.`, { allow });
      },
      handler: async () => undefined,
    });
  }
}

function groupByPath(routes: readonly Route[]): Map<string, string[]> {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routes) methods.set(path, [...(methods.get(path) ?? []), method]);
  return methods;
}

/**
 * Connections whose handshake has not begun would hold up a stop until they time out; balancers and browsers open some
 * ahead of need.
 */
function endUnusedConnectionsOnClose(app: FastifyInstance): void {
  const open = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  app.addHook('preClose', async () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  });
}

function originsOf(trustProxies: readonly string[]): OriginOf {
  const isProxy = compileNetworks(trustProxies.filter(isAddressOrNetwork));
  return (address) => (isProxy(address) ? undefined : networkOf(address));
}

/** Counts refused and closed connections. Logs at most once a minute that the limit is reached: anybody could fill the log. */
function reportConnections(
  { log, metrics }: { log: Log; metrics: Pick<Metrics, 'connectionsEnded'> },
  { max }: ConnectionLimits,
): (why: ConnectionEnd) => void {
  let ended = { limit: 0, idle: 0 };
  let quietUntil = 0;
  return (why) => {
    metrics.connectionsEnded.inc({ reason: why });
    if (why === 'unread') return;
    ended[why] += 1;
    const now = monotonicMs();
    if (now < quietUntil) return;
    const { limit: refused, idle: closed_idle } = ended;
    log.warn({ refused, closed_idle, max_connections: max }, 'the limit of connections is reached');
    ended = { limit: 0, idle: 0 };
    quietUntil = now + 60_000;
  };
}

function parseQuery(text: string): Record<string, unknown> {
  return parse(text, '&', '=', { maxKeys: 50 });
}
