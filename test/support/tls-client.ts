import { once } from 'node:events';
import { Agent, type AgentOptions, request } from 'node:https';
import type { TLSSocket } from 'node:tls';
import type { Certificate } from './certificates.ts';
import type { Credentials } from './gateway.ts';

export interface SecureAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  /** Local port of the connection: the same for two answers over one connection. */
  connection: number | undefined;
}

export interface SecureRequest {
  method?: string;
  as?: Credentials | undefined;
  body?: object;
  headers?: Record<string, string>;
}

/** A client that keeps one connection open. */
export interface SecureClient {
  ask(path: string, options?: SecureRequest): Promise<SecureAnswer>;
  /** The session that the server gave last, to be resumed by another client. */
  session(): Buffer | undefined;
  /** Whether the open connection has resumed an older session. */
  isResumed(): boolean | undefined;
  /** Certificate of the server on the open connection. */
  serverFingerprint(): string | undefined;
  close(): void;
}

export function createSecureClient(
  url: string,
  authority: Certificate,
  own?: Certificate,
  options: AgentOptions = {},
): SecureClient {
  const identity = own && { cert: own.cert, key: own.key };
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.cert, ...identity, ...options });
  let socket: TLSSocket | undefined;
  let session: Buffer | undefined;
  return {
    async ask(path, { method = 'GET', as, body, headers } = {}) {
      const outgoing = request(url + path, {
        method,
        agent,
        headers: {
          ...(as && { 'x-api-key': as.apiKey, 'x-api-secret': as.apiSecret }),
          ...(body && { 'content-type': 'application/json' }),
          ...headers,
        },
      });
      outgoing.once('socket', (used) => {
        if (socket === used) return;
        socket = used as TLSSocket;
        socket.on('session', (given: Buffer) => {
          session = given;
        });
      });
      outgoing.end(body && JSON.stringify(body));
      const [response] = await once(outgoing, 'response');
      const connection = socket?.localPort;
      const chunks: Buffer[] = await response.toArray();
      const text = Buffer.concat(chunks).toString();
      return { status: response.statusCode, headers: response.headers, body: text, connection };
    },
    session: () => session,
    isResumed: () => socket?.isSessionReused(),
    serverFingerprint: () => socket?.getPeerX509Certificate()?.fingerprint256,
    close: () => agent.destroy(),
  };
}
