import { Agent, type Dispatcher, request as send } from 'undici';
import type { Answer, Request } from './auditor/facts.ts';
import type { Replica } from './replica.ts';
import type { Actor, World } from './virtual/world.ts';

export interface Credentials {
  id: string;
  apiKey: string;
  apiSecret: string;
}

/** Longer than any request may take. */
const patienceMs = 60_000;

/** The consumers' programs. */
export class Client {
  readonly #world: World;
  readonly #replicas: readonly Replica[];
  readonly #credentials: Readonly<Record<string, Credentials>>;
  /** Access tokens by consumer, which some requests have in place of the pair, until so many milliseconds of virtual time. */
  readonly tokens = new Map<string, { token: string; until: number }>();
  readonly #actor: Actor;
  readonly #agent = new Agent({ headersTimeout: patienceMs, bodyTimeout: patienceMs, pipelining: 1 });

  constructor(
    world: World,
    replicas: readonly Replica[],
    credentials: Readonly<Record<string, Credentials>>,
    actor: Actor,
  ) {
    this.#world = world;
    this.#replicas = replicas;
    this.#credentials = credentials;
    this.#actor = actor;
  }

  /** Sends it to one of the replicas, dead or alive; undefined where no answer comes. */
  send(request: Request, replica = this.#world.random.pick(this.#replicas)): Promise<Answer | undefined> {
    return this.sendBy(this.#provenBy(request.as), request, replica);
  }

  /** Sends it with these credentials. */
  async sendBy(
    proof: Record<string, string>,
    request: Request,
    { url }: Replica,
  ): Promise<Answer | undefined> {
    const { method, path, body, key, headers, tool } = request.tool === undefined ? request : callOf(request);
    const answer = await this.#world.as(this.#actor, () =>
      exchange(this.#agent, url + path, {
        method,
        body: body ?? null,
        headers: {
          ...proof,
          ...(key !== undefined && { 'idempotency-key': key }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
      }),
    );
    return tool === undefined ? answer : resultOf(answer);
  }

  /** Sends a form, whose fields say from whom it is. */
  ask(path: string, form: string): Promise<Answer | undefined> {
    const { url } = this.#world.random.pick(this.#replicas);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return this.#world.as(this.#actor, () =>
      exchange(this.#agent, url + path, { method: 'POST', body: form, headers }),
    );
  }

  #provenBy(name: string): Record<string, string> {
    const { token, until } = this.tokens.get(name) ?? { until: 0 };
    const hasToken = token !== undefined && this.#world.elapsed < until;
    if (hasToken && this.#world.random.chance(0.5)) return { authorization: `Bearer ${token}` };
    return pairOf(this.#credentials[name] as Credentials);
  }

  /** Does work in the name of the clients. */
  do(work: () => Promise<void>): Promise<void> {
    return this.#world.as(this.#actor, work);
  }
}

export function pairOf({ apiKey, apiSecret }: Credentials): Record<string, string> {
  return { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
}

/** The call of a tool, whose intent is the key. */
function callOf({ tool = '', body = '{}', key, ...request }: Request): Request {
  const given = { ...(JSON.parse(body) as object), intent: key };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: given } };
  const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' };
  return { ...request, tool, headers, method: 'POST', path: '/mcp', body: JSON.stringify(call) };
}

/** The answer of the tool's route, as well as its result shows it. */
function resultOf(answer: Answer | undefined): Answer | undefined {
  if (answer === undefined || answer.status !== 200) return answer;
  const { result } = JSON.parse(answer.text) as {
    result?: { structuredContent?: { status?: unknown; replayed?: boolean }; isError?: boolean };
  };
  const { replayed: _, ...content } = result?.structuredContent ?? {};
  const waits = content.status === 'accepted' || content.status === 'awaiting_approval';
  const status = result?.isError ? Number(content.status) : waits ? 202 : 201;
  return { ...answer, status, text: JSON.stringify(content) };
}

/** The controls of a simulator, for those who steer it. */
export class Control {
  readonly #world: World;
  readonly #url: string;
  readonly #actor: Actor;
  readonly #agent = new Agent({ headersTimeout: patienceMs, bodyTimeout: patienceMs });

  constructor(world: World, url: string, actor: Actor) {
    this.#world = world;
    this.#url = url;
    this.#actor = actor;
  }

  async do<T>(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<T> {
    const answer = await this.#world.as(this.#actor, () =>
      exchange(this.#agent, `${this.#url}/simulator/${path}`, {
        method,
        body: body === undefined ? null : JSON.stringify(body),
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }) },
      }),
    );
    if (answer === undefined || answer.status >= 400) throw new Error(`${method} ${path}: ${answer?.text}`);
    return JSON.parse(answer.text || 'null') as T;
  }
}

async function exchange(
  dispatcher: Agent,
  url: string,
  options: { method: Dispatcher.HttpMethod; body: string | null; headers: Record<string, string> },
): Promise<Answer | undefined> {
  try {
    const { statusCode, headers, body } = await send(url, { dispatcher, ...options });
    return { status: statusCode, headers, text: await body.text() };
  } catch {
    return undefined;
  }
}
