import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { closeServer, listen } from '../../simulators/shared/server.ts';

/** What goes wrong with a call; `lost` does the work and then cuts the connection in place of an answer. */
export type VaultFault =
  | 'sealed'
  | 'forbidden'
  | 'throttled'
  | 'broken'
  | 'hang'
  | 'reset'
  | 'lost'
  | 'html'
  | 'huge'
  | 'echo';

export interface VaultServerCall {
  method: string;
  /** Below `/v1/`, without the query. */
  path: string;
  token: string | undefined;
  namespace: string | undefined;
  status: number;
}

interface Token {
  ttl: number;
  renewable: boolean;
  expiresAt: number;
  /** No renewal goes beyond it. */
  endsAt: number;
}

interface Version {
  data: Record<string, unknown>;
  createdTime: string;
  deletionTime: string;
  isDestroyed: boolean;
}

interface Role {
  jwt: string;
  ttl: number;
  maxTtl: number;
}

interface Answer {
  status: number;
  body?: object;
}

/**
 * Stands in for a HashiCorp Vault server in tests: KV version 2 with check-and-set, soft deletion and metadata, tokens
 * that run out and can be renewed, sign-in of Kubernetes service accounts, sealing. Written from Vault's HTTP API
 * documentation. It has no policies beyond whole paths that are denied. Times of life are in seconds.
 */
export class VaultServer {
  readonly calls: VaultServerCall[] = [];
  address = '';
  /** Roles of the Kubernetes auth method. */
  readonly roles = new Map<string, Role>();
  /** Asked for each call before it is done. */
  fault: (call: { method: string; path: string }) => VaultFault | undefined = () => undefined;
  /** The only namespace there is, when set. */
  namespace: string | undefined;
  readonly #mounts = new Map([['secret', new Map<string, Version[]>()]]);
  readonly #tokens = new Map<string, Token>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly #waiting = new Set<{ path: string; resolve: (call: VaultServerCall) => void }>();
  #ticks = 0;

  static async start(): Promise<VaultServer> {
    const server = new VaultServer();
    server.address = (await listen(server.#server)).url;
    return server;
  }

  stop(): Promise<void> {
    return closeServer(this.#server);
  }

  /** A token; 0 seconds: without an end, as a root token has none. */
  makeToken(ttl = 0, options: { renewable?: boolean; maxTtl?: number } = {}): string {
    const token = `hvs.${crypto.randomUUID().replaceAll('-', '')}`;
    const now = performance.now();
    const expiresAt = ttl === 0 ? Number.POSITIVE_INFINITY : now + ttl * 1000;
    const endsAt = options.maxTtl === undefined ? Number.POSITIVE_INFINITY : now + options.maxTtl * 1000;
    this.#tokens.set(token, { ttl, renewable: options.renewable ?? ttl > 0, expiresAt, endsAt });
    return token;
  }

  revoke(token: string): void {
    this.#tokens.delete(token);
  }

  /** Resolves when the next call to that path has been answered. */
  next(path: string): Promise<VaultServerCall> {
    const { promise, resolve } = Promise.withResolvers<VaultServerCall>();
    this.#waiting.add({ path, resolve });
    return promise;
  }

  /** What an operator does by hand: writes whatever data, without check-and-set. */
  put(path: string, data: Record<string, unknown>): void {
    this.#append(this.#secrets(), path, data);
  }

  /** `vault kv delete`: the data of the newest version go, the metadata stay. */
  softDelete(path: string): void {
    const version = this.#secrets().get(path)?.at(-1);
    if (version !== undefined) version.deletionTime = this.#now();
  }

  /** `vault kv metadata delete`. */
  remove(path: string): void {
    this.#secrets().delete(path);
  }

  paths(): string[] {
    return [...this.#secrets().keys()];
  }

  #secrets(): Map<string, Version[]> {
    return this.#mounts.get('secret') as Map<string, Version[]>;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { call, text } = await readCall(request);
    const fault = this.fault(call);
    if (fault === 'hang') return this.#notify({ ...call, status: 0 });
    const answer = faultAnswer(fault, text, call.token) ?? this.#answer(call, text);
    if (fault === 'reset' || fault === 'lost') request.socket.destroy();
    else send(response, answer, fault);
    this.#notify({ ...call, status: answer.status });
  }

  #notify(call: VaultServerCall): void {
    this.calls.push(call);
    for (const waiter of [...this.#waiting]) {
      if (waiter.path !== call.path) continue;
      this.#waiting.delete(waiter);
      waiter.resolve(call);
    }
  }

  #answer(call: Omit<VaultServerCall, 'status'>, text: string): Answer {
    if (call.namespace !== this.namespace) return noRoute(call.path);
    const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    if (call.path === 'auth/kubernetes/login') return this.#logIn(body);
    if (/^auth\/[^/]+\/login$/.test(call.path)) return noRoute(call.path);
    const id = call.token ?? '';
    const token = this.#tokens.get(id);
    if (token === undefined || token.expiresAt < performance.now()) return denied;
    if (call.path === 'auth/token/lookup-self') return lookUp(token);
    if (call.path === 'auth/token/renew-self') return renew(token, id);
    return this.#kv(call, body);
  }

  #kv(call: { method: string; path: string }, body: Record<string, unknown>): Answer {
    const [, mount = '', part = '', path = ''] = /^([^/]+)\/(data|metadata)\/(.+)$/.exec(call.path) ?? [];
    const secrets = this.#mounts.get(mount);
    if (secrets === undefined) return noRoute(call.path);
    return part === 'data'
      ? this.#data(secrets, call.method, path, body)
      : metadata(secrets, call.method, path);
  }

  #logIn({ role, jwt }: Record<string, unknown>): Answer {
    const found = this.roles.get(String(role));
    if (found === undefined)
      return { status: 400, body: { errors: [`invalid role name "${String(role)}"`] } };
    if (found.jwt !== jwt) return denied;
    const token = this.makeToken(found.ttl, { maxTtl: found.maxTtl });
    return {
      status: 200,
      body: { auth: { client_token: token, lease_duration: found.ttl, renewable: true } },
    };
  }

  #data(
    secrets: Map<string, Version[]>,
    method: string,
    path: string,
    body: Record<string, unknown>,
  ): Answer {
    const versions = secrets.get(path) ?? [];
    if (method === 'GET') return readNewest(versions);
    if (method !== 'POST' && method !== 'PUT')
      return { status: 405, body: { errors: ['unsupported operation'] } };
    const { cas } = (body['options'] ?? {}) as { cas?: number };
    if (cas !== undefined && cas !== versions.length) {
      return { status: 400, body: { errors: ['check-and-set parameter did not match the current version'] } };
    }
    const number = this.#append(secrets, path, body['data'] as Record<string, unknown>);
    return { status: 200, body: { data: describe(secrets.get(path)?.at(-1) as Version, number) } };
  }

  #append(secrets: Map<string, Version[]>, path: string, data: Record<string, unknown>): number {
    const versions = secrets.get(path) ?? [];
    secrets.set(path, versions);
    return versions.push({ data, createdTime: this.#now(), deletionTime: '', isDestroyed: false });
  }

  /** Nanoseconds, as Vault has them: no two alike. */
  #now(): string {
    return new Date().toISOString().replace('Z', `${String(this.#ticks++).padStart(6, '0')}Z`);
  }
}

async function readCall(request: IncomingMessage) {
  const url = new URL(request.url ?? '/', 'http://vault');
  const isList = request.method === 'GET' && url.searchParams.get('list') === 'true';
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const call = {
    method: isList ? 'LIST' : String(request.method),
    path: decodeURIComponent(url.pathname)
      .replace(/^\/v1\//, '')
      .replace(/\/$/, ''),
    token: request.headers['x-vault-token'] as string | undefined,
    namespace: request.headers['x-vault-namespace'] as string | undefined,
  };
  return { call, text: Buffer.concat(chunks).toString('utf8') };
}

const denied: Answer = { status: 403, body: { errors: ['permission denied'] } };
const nothing: Answer = { status: 404, body: { errors: [] } };

function noRoute(path: string): Answer {
  return { status: 404, body: { errors: [`no handler for route "${path}". route entry not found.`] } };
}

function faultAnswer(
  fault: VaultFault | undefined,
  text: string,
  token: string | undefined,
): Answer | undefined {
  switch (fault) {
    case 'sealed':
      return { status: 503, body: { errors: ['Vault is sealed'] } };
    case 'forbidden':
      return denied;
    case 'throttled':
      return { status: 429, body: { errors: ['request path "x": rate limit quota exceeded'] } };
    case 'broken':
      return { status: 500, body: { errors: ['internal error'] } };
    case 'reset':
      return { status: 0 };
    case 'html':
      return { status: 404 };
    case 'huge':
      return { status: 200 };
    case 'echo':
      return { status: 500, body: { errors: [`could not handle ${text} of ${token}`] } };
    default:
      return undefined;
  }
}

function send(response: ServerResponse, { status, body }: Answer, fault: VaultFault | undefined): void {
  response.writeHead(status, { 'content-type': body === undefined ? 'text/html' : 'application/json' });
  if (fault === 'huge') return void response.end(Buffer.alloc(9 * 1024 * 1024, 'x'));
  response.end(body === undefined ? (status === 204 ? '' : '<p>no such page</p>') : JSON.stringify(body));
}

function lookUp(token: Token): Answer {
  const ttl = token.ttl === 0 ? 0 : Math.max(0, Math.ceil((token.expiresAt - performance.now()) / 1000));
  return { status: 200, body: { data: { ttl, creation_ttl: token.ttl, renewable: token.renewable } } };
}

function renew(token: Token, id: string): Answer {
  if (!token.renewable) return { status: 400, body: { errors: ['lease is not renewable'] } };
  const now = performance.now();
  token.expiresAt = Math.min(now + token.ttl * 1000, token.endsAt);
  const seconds = Math.max(0, Math.round((token.expiresAt - now) / 1000));
  return { status: 200, body: { auth: { client_token: id, lease_duration: seconds, renewable: true } } };
}

function readNewest(versions: Version[]): Answer {
  const version = versions.at(-1);
  if (version === undefined) return nothing;
  const isGone = version.deletionTime !== '' || version.isDestroyed;
  const body = { data: { data: isGone ? null : version.data, metadata: describe(version, versions.length) } };
  return { status: isGone ? 404 : 200, body };
}

function describe({ createdTime, deletionTime, isDestroyed }: Version, number: number): object {
  return {
    version: number,
    created_time: createdTime,
    deletion_time: deletionTime,
    destroyed: isDestroyed,
    custom_metadata: null,
  };
}

function metadata(secrets: Map<string, Version[]>, method: string, path: string): Answer {
  if (method === 'DELETE') {
    secrets.delete(path);
    return { status: 204 };
  }
  if (method !== 'LIST') return { status: 405, body: { errors: ['unsupported operation'] } };
  const below = [...secrets.keys()].filter((key) => key.startsWith(`${path}/`));
  const keys = below.map((key) => key.slice(path.length + 1).replace(/\/.*$/, '/'));
  return keys.length === 0 ? nothing : { status: 200, body: { data: { keys: [...new Set(keys)].sort() } } };
}
