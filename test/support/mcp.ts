import assert from 'node:assert/strict';

const modernVersion = '2026-07-28';

/** What `tools/call` answers, where it is no error of JSON-RPC. */
export interface ToolResult {
  content: { type: string; text: string }[];
  structuredContent: Record<string, unknown>;
  isError: boolean;
}

export interface McpAnswer {
  jsonrpc: '2.0';
  id: string | number | null;
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: unknown };
}

interface Pair {
  apiKey: string;
  apiSecret: string;
}

/** A request of the revision without handshake, as the official client sends it. */
export function modernRequest(method: string, params: object = {}, id: string | number = 1) {
  const { name } = params as { name?: string };
  return {
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': modernVersion,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': name }),
    } as Record<string, string>,
    body: {
      jsonrpc: '2.0',
      id,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': modernVersion,
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      } as Record<string, unknown>,
    },
  };
}

/** Sends a message to `/mcp` of a gateway. A text is sent as it is. */
export function sendMcp(
  url: string,
  as: Pair | null,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(as && { 'x-api-key': as.apiKey, 'x-api-secret': as.apiSecret }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** Calls a tool and returns its result. Throws where the answer is no result. */
export async function callTool(
  url: string,
  as: Pair,
  name: string,
  given: object = {},
  headers: Record<string, string> = {},
): Promise<ToolResult> {
  const request = modernRequest('tools/call', { name, arguments: given });
  const response = await sendMcp(url, as, request.body, { ...request.headers, ...headers });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const { result } = JSON.parse(text) as { result?: ToolResult };
  assert.ok(result, text);
  assert.equal(result.content[0]?.text, JSON.stringify(result.structuredContent));
  return result;
}

export interface ListedTool {
  name: string;
  title: string;
  description: string;
  inputSchema: { type: string; properties: Record<string, object>; required: string[] };
  outputSchema: { type: string; anyOf: object[] };
  annotations: Record<string, boolean>;
}

/** The tools that the caller is shown. */
export async function listTools(url: string, as: Pair): Promise<ListedTool[]> {
  const request = modernRequest('tools/list');
  const response = await sendMcp(url, as, request.body, request.headers);
  return ((await response.json()) as { result: { tools: ListedTool[] } }).result.tools;
}
