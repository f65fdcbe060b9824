import { Agent, request } from 'undici';
import { timeoutSignal } from '../base/chance.ts';
import { isObject } from '../base/json-text.ts';
import { SecretsUnavailable } from './secrets-manager.ts';

/** Most bytes of an answer: a secret of full size, escaped, or some 40,000 names. */
const maxAnswerBytes = 8 * 1024 * 1024;

export interface VaultConnection {
  /** URL of the server, without `/v1`. */
  address: string;
  namespace?: string | undefined;
  ca?: string | undefined;
  /** For one call: connecting, waiting, reading. 5 s when not given. */
  timeoutMs?: number | undefined;
}

export interface VaultCall {
  method: 'GET' | 'POST' | 'DELETE';
  /** Below `/v1/`; holds nothing secret, for it stands in errors. */
  path: string;
  query?: string;
  token?: string;
  body?: object;
}

export interface VaultAnswer {
  status: number;
  /** Undefined where the answer is no JSON object. */
  body: Readonly<Record<string, unknown>> | undefined;
}

/** Vault's HTTP API (Vault documentation, HTTP API). No error holds what was sent or what came back. */
export function createVaultHttp(options: VaultConnection) {
  const { timeoutMs = 5000, ca } = options;
  const agent = new Agent({
    connect: { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 10_000,
  });
  const once = (call: VaultCall) => exchange(agent, options, timeoutMs, call);
  return {
    /** Sends a call and reads the answer, whatever its status. Throws `SecretsUnavailable` where there is none. */
    call: async (call: VaultCall): Promise<VaultAnswer> => {
      try {
        return await once(call).catch((error: unknown) => {
          // The server closed a kept connection just when it was used. A write may have been executed: no retry.
          if (call.method === 'GET' && isLost(error)) return once(call);
          throw error;
        });
      } catch (error) {
        const unknown = call.method === 'GET' || isUnsent(error) ? '' : '; the call may have taken effect';
        throw new SecretsUnavailable(
          `Vault at ${options.address} didn't answer ${call.method} ${call.path}: ${reasonOf(error)}${unknown}`,
        );
      }
    },
    close: (): Promise<void> => agent.destroy(),
  };
}

export type VaultHttp = ReturnType<typeof createVaultHttp>;

async function exchange(
  agent: Agent,
  { address, namespace }: VaultConnection,
  timeoutMs: number,
  { method, path, query, token, body }: VaultCall,
): Promise<VaultAnswer> {
  const answer = await request(`${address}/v1/${path}${query === undefined ? '' : `?${query}`}`, {
    dispatcher: agent,
    method,
    headers: {
      // An agent or proxy in between may demand it, against forged requests.
      'x-vault-request': 'true',
      ...(token === undefined ? {} : { 'x-vault-token': token }),
      ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal: timeoutSignal(timeoutMs),
  });
  return { status: answer.statusCode, body: parseObject(await readAll(answer.body)) };
}

async function readAll(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxAnswerBytes) throw new Error(`the answer has more than ${maxAnswerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseObject(text: string): VaultAnswer['body'] {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return isObject(value) ? value : undefined;
}

function isLost(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(codeOf(error));
}

function isUnsent(error: unknown): boolean {
  return /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$|CERT|TLS|SSL/.test(
    codeOf(error),
  );
}

/** A code of Node or undici, or a sentence of this file: messages of others may quote what was sent. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'it took too long';
  const code = codeOf(error);
  if (code !== '') return code;
  return error instanceof Error && error.message.startsWith('the answer has')
    ? error.message
    : 'the call failed';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Advice for the operator by status (Vault documentation, HTTP API, status codes). */
const advice: Record<number, string> = {
  307: 'it redirects to another node: VAULT_ADDR must name the active node, or the standby must forward requests',
  308: 'it redirects to another address: set VAULT_ADDR to that one',
  400: 'it rejects the request: VAULT_MOUNT must name a KV engine of version 2',
  403: "permission denied: the token's policy lacks this path, or VAULT_MOUNT or VAULT_NAMESPACE is wrong",
  404: "there's no such path: check VAULT_ADDR, VAULT_MOUNT and VAULT_NAMESPACE",
  405: "it doesn't know the method: VAULT_MOUNT must name a KV engine of version 2",
  412: "the node doesn't have the latest data yet",
  413: 'the secret is too large for it',
  429: "Vault's rate limit is reached",
  472: "it's a disaster recovery replica: VAULT_ADDR must name the primary cluster",
  473: "it's a performance standby that doesn't answer",
};

/**
 * The error for an answer that is not the expected one. Vault's own words stay out of it: they may quote the request.
 * `work` completes "Vault didn't ...".
 */
export function refusal(work: string, { status, body }: VaultAnswer): SecretsUnavailable {
  return new SecretsUnavailable(`Vault didn't ${work} (status ${status}): ${explain({ status, body })}`);
}

function explain({ status, body }: VaultAnswer): string {
  if (status === 503 && errorsOf(body).some((text) => /sealed/i.test(text))) return "it's sealed: unseal it";
  if (status < 300) return "the answer isn't from a KV engine of version 2: check VAULT_ADDR and VAULT_MOUNT";
  return advice[status] ?? (status >= 500 ? "it's failing or not ready" : 'the status is unexpected');
}

export function errorsOf(body: VaultAnswer['body']): string[] {
  const errors = body?.['errors'];
  return Array.isArray(errors) ? errors.filter((text) => typeof text === 'string') : [];
}
