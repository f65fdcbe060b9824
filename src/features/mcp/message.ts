import type { IncomingHttpHeaders } from 'node:http';

/*
 * Messages of the Model Context Protocol over Streamable HTTP without sessions. Revision 2026-07-28 has no handshake: version
 * and capabilities come with each request, in `_meta`, and headers repeat what a proxy may want to know. Older clients say
 * `initialize` first; nothing is kept of it, and nothing of theirs is streamed.
 */

export const modernVersion = '2026-07-28';
export const legacyVersions: readonly string[] = ['2025-11-25', '2025-06-18'];

export const rpcCodes = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  refused: -32000,
  headers: -32020,
  version: -32022,
} as const;

type Fields = Record<string, unknown>;

export interface McpRequest {
  id: string | number;
  method: string;
  params: Fields;
  isModern: boolean;
}

export class MalformedMessage extends Error {
  readonly status: number;
  readonly code: number;
  readonly id: string | number | null;
  readonly data: unknown;

  constructor(
    code: number,
    message: string,
    { id = null, status = 400, data }: { id?: string | number | null; status?: number; data?: unknown } = {},
  ) {
    super(message);
    this.code = code;
    this.id = id;
    this.status = status;
    this.data = data;
  }
}

const metaVersion = 'io.modelcontextprotocol/protocolVersion';
const metaCapabilities = 'io.modelcontextprotocol/clientCapabilities';
const named = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/** Reads a message; undefined for one that wants no answer. Throws `MalformedMessage`. */
export function readMessage(body: unknown, headers: IncomingHttpHeaders): McpRequest | undefined {
  if (!isFields(body) || body['jsonrpc'] !== '2.0' || typeof body['method'] !== 'string')
    throw new MalformedMessage(rpcCodes.request, 'Send one request of JSON-RPC 2.0.');
  const { id, method, params = {} } = body;
  if (!Object.hasOwn(body, 'id')) return undefined;
  if (!isId(id)) throw new MalformedMessage(rpcCodes.request, 'id must be a text or a whole number.');
  if (!isFields(params)) throw new MalformedMessage(rpcCodes.params, 'params must be an object.', { id });
  const request = { id, method, params };
  return { ...request, isModern: isModern(request, headers) };
}

/** Another number would not come back as it was sent. */
function isId(value: unknown): value is string | number {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

type Unversioned = Omit<McpRequest, 'isModern'>;

/** Whether it is of the revision without handshake. Throws `MalformedMessage` where it is of none. */
function isModern(request: Unversioned, headers: IncomingHttpHeaders): boolean {
  const { id, method, params } = request;
  const meta = isFields(params['_meta']) ? params['_meta'] : {};
  const sent = headers['mcp-protocol-version']?.toString();
  if (meta[metaVersion] !== undefined || sent === modernVersion) {
    checkModern(request, headers, meta, sent);
    return true;
  }
  // The handshake says itself which version is asked for.
  if (sent === undefined || method === 'initialize' || legacyVersions.includes(sent)) return false;
  throw unknownVersion(id, sent);
}

/** Headers and `_meta` must be there, and say the same as the body. Throws `MalformedMessage`. */
function checkModern(
  { id, method, params }: Unversioned,
  headers: IncomingHttpHeaders,
  meta: Fields,
  sent: string | undefined,
): void {
  const differs = (name: string) => {
    const message = `The header ${name} is required and must match the body.`;
    return new MalformedMessage(rpcCodes.headers, message, { id });
  };
  if (meta[metaVersion] === undefined) throw missingMeta(id, metaVersion);
  if (sent === undefined || meta[metaVersion] !== sent) throw differs('MCP-Protocol-Version');
  if (sent !== modernVersion) throw unknownVersion(id, sent);
  if (!isFields(meta[metaCapabilities])) throw missingMeta(id, metaCapabilities);
  if (headers['mcp-method'] !== method) throw differs('Mcp-Method');
  const part = named.get(method);
  if (part !== undefined && decodeHeader(headers['mcp-name']) !== params[part]) throw differs('Mcp-Name');
}

function unknownVersion(id: string | number, requested: string): MalformedMessage {
  const supported = [modernVersion, ...legacyVersions];
  return new MalformedMessage(rpcCodes.version, "This version of the protocol isn't supported.", {
    id,
    data: { supported, requested: requested.slice(0, 100) },
  });
}

function missingMeta(id: string | number, name: string): MalformedMessage {
  return new MalformedMessage(rpcCodes.params, `params._meta lacks ${name}.`, { id });
}

/** Text that no header can hold comes as `=?base64?…?=`. */
function decodeHeader(value: string | string[] | undefined): string {
  const [, encoded] = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(String(value)) ?? [];
  return encoded === undefined ? String(value) : Buffer.from(encoded, 'base64').toString('utf8');
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
