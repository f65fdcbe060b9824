import { METHODS, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RawServerDefault,
} from 'fastify';
import { Type } from 'typebox';
import { Problem } from '../base/problem.ts';
import type { AttemptRecorder } from '../consumers/attempts.ts';
import type { Authenticate } from '../consumers/authentication.ts';
import type { Ledger } from '../idempotency/ledger.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Tracing } from '../observability/tracing.ts';
import { authenticationSteps } from './pipeline/authentication.ts';
import { bodySteps, readJsonBodies } from './pipeline/body.ts';
import { deprecationHeaders } from './pipeline/deprecation.ts';
import { formats } from './pipeline/formats.ts';
import { fromFramework, maxBodyBytes } from './pipeline/framework-errors.ts';
import { problemAnswer, toProblem } from './pipeline/problem-answer.ts';
import { parseQuery } from './pipeline/query.ts';
import type { Limits } from './pipeline/rate-limit.ts';
import { requestIdOf } from './pipeline/request-id.ts';
import { observeRefused, observeRequests } from './pipeline/request-log.ts';
import { readIdempotencyKey, runRoute, send } from './pipeline/run-route.ts';
import { signatureSteps } from './pipeline/signature.ts';
import { answerSocketError } from './pipeline/socket-errors.ts';
import { inOrder, type Step } from './pipeline/step.ts';
import type { Route } from './route.ts';
import { judgeWithoutTls } from './tls/client-certificates.ts';
import type { TlsDoor } from './tls/tls-door.ts';

export interface ServerOptions {
  routes: readonly Route[];
  authenticate: Authenticate;
  attempts: AttemptRecorder;
  limits: Limits;
  ledger: Ledger;
  log: Log;
  metrics: Metrics;
  tracing: Tracing;
  trustProxies: readonly string[];
  /** Undefined: the port speaks plain HTTP. */
  tls: TlsDoor | undefined;
  /** A stop has begun: answers tell clients to open no further requests on their connections. */
  isStopping: () => boolean;
}

export type Server = FastifyInstance;

const requestTimeout = 30_000;
const keepAliveTimeout = 72_000;

/** Most requests have no body: without this Node makes each of them a stream that ends, which costs a read a twentieth. */
const serverOptions = { optimizeEmptyRequests: true };

/** The HTTP face: all routes, and the same order of checks before each of them. Opens no port. */
export function createServer(options: ServerOptions): Server {
  const { routes, log, tls } = options;
  const app = Fastify({
    logger: false,
    http: serverOptions,
    genReqId: requestIdOf,
    bodyLimit: maxBodyBytes,
    // The whole request must arrive within this time; answers may take longer.
    requestTimeout,
    keepAliveTimeout,
    ...(tls && { serverFactory: (handler: RequestListener) => secureServer(tls, handler) }),
    // Requests that arrive on open connections while stopping are still answered.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: options.trustProxies.length > 0 ? [...options.trustProxies] : false,
    routerOptions: { maxParamLength: 200, querystringParser: parseQuery },
    ajv: {
      customOptions: {
        allErrors: true,
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        formats,
      },
    },
    clientErrorHandler: answerSocketError,
    frameworkErrors: (error, request, reply) => {
      observeRefused(request, reply, options);
      answerError(error, request, reply, log);
    },
  });
  for (const name of ['consumer', 'attempt', 'call', 'idempotencyKey']) app.decorateRequest(name);
  endUnusedConnectionsOnClose(app);
  readJsonBodies(app);
  observeRequests(app, options);
  app.addHook('onRequest', inOrder([setCommonHeaders]));
  app.addHook('onSend', (_request, reply, payload, done) => {
    // Also on what was asked before the stop began: a connection left open would outlive the service.
    if (options.isStopping()) reply.header('connection', 'close');
    done(null, payload);
  });
  app.setErrorHandler((error: FastifyError, request, reply) => answerError(error, request, reply, log));
  app.setNotFoundHandler(() => {
    throw new Problem('not_found', 'There is nothing at this path.');
  });
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method) && method !== 'CONNECT') app.addHttpMethod(method);
  }
  for (const route of routes) register(app, route, options);
  answerOtherMethods(app, routes);
  return app;
}

/** A server of our own making gets none of the framework's settings. */
function secureServer(tls: TlsDoor, handler: RequestListener): RawServerDefault {
  return tls.createServer({ ...serverOptions, requestTimeout, keepAliveTimeout }, handler);
}

/** Credentials, permission, key, schema, idempotency: the hooks run in this order, whatever the route. */
function register(app: FastifyInstance, route: Route, options: ServerOptions): void {
  const { authenticate, limits, ledger, tls, log } = options;
  const { params, query, body } = route.request;
  const { onRequest, preValidation } = authenticationSteps(route, {
    authenticate,
    certificates: tls?.certificates ?? judgeWithoutTls,
    limits,
  });
  const ofBody = bodySteps(route);
  const ofSignature = signatureSteps(route, limits, log);
  const announcement = route.deprecation && deprecationHeaders(route.deprecation);
  app.route({
    method: route.method,
    url: route.path,
    ...ofSignature.options,
    schema: {
      ...(params && { params }),
      ...(body && { body }),
      // Without a declared query, every query parameter is one too many.
      querystring: query ?? Type.Object({}, { additionalProperties: false }),
    },
    onRequest: inOrder([
      ...(announcement ? [announce(announcement)] : []),
      ...ofSignature.onRequest,
      ...ofBody.onRequest,
      ...(onRequest ? [onRequest] : []),
    ]),
    preValidation: inOrder([
      ...ofSignature.preValidation,
      ofBody.preValidation,
      ...(preValidation ? [preValidation] : []),
      readIdempotencyKey(route),
    ]),
    handler: runRoute(route, ledger),
  });
}

/** First of all, so that errors tell it too. */
function announce(headers: Record<string, string>): Step {
  return (_, reply) => void reply.headers(headers);
}

/** A known path answers OPTIONS with what it allows, and every other method with 405 and the same. */
function answerOtherMethods(app: FastifyInstance, routes: readonly Route[]): void {
  for (const [url, methods] of groupByPath(routes)) {
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].sort();
    const others = app.supportedMethods.filter((method) => !allow.includes(method));
    app.route({
      method: 'OPTIONS',
      url,
      handler: (_, reply) => reply.code(204).header('allow', allow.join(', ')).send(),
    });
    app.route({
      method: others,
      url,
      onRequest: async ({ method }) => {
        throw new Problem('method_not_allowed', `${method} is not allowed here.`, { allow });
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
 * Connections on which nothing was ever asked count as busy for Node, and would hold up a stop until they time out;
 * balancers and browsers open some ahead of need.
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

function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
}

function answerError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
  log: Log,
): FastifyReply {
  const problem = fromFramework(error, request.routeOptions.bodyLimit) ?? toProblem(error);
  if (problem.status >= 500) {
    const { code, facts } = problem;
    const trace_id = request.span?.traceId;
    log.error({ request_id: request.id, trace_id, code, err: facts.cause ?? problem }, 'the request failed');
  }
  setCommonHeaders(request, reply);
  return send(reply, problemAnswer(problem, request.id, request.idempotencyKey !== undefined));
}
