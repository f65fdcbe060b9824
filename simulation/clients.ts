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
    const { apiKey, apiSecret } = this.#credentials[request.as] as Credentials;
    const { method, path, body, key, headers } = request;
    return this.#world.as(this.#actor, () =>
      exchange(this.#agent, replica.url + path, {
        method,
        body: body ?? null,
        headers: {
          'x-api-key': apiKey,
          'x-api-secret': apiSecret,
          ...(key !== undefined && { 'idempotency-key': key }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
      }),
    );
  }

  /** Does work in the name of the clients. */
  do(work: () => Promise<void>): Promise<void> {
    return this.#world.as(this.#actor, work);
  }
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
