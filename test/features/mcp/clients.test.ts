import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import { useGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';

describe('the official client', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '60' });

  const connect = async (
    versions: ConstructorParameters<typeof Client>[1],
    options: StreamableHTTPClientTransportOptions,
  ): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1.0.0' }, versions);
    await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), options));
    return client;
  };
  const withPair = () => ({
    requestInit: {
      headers: { 'x-api-key': gateway.console.apiKey, 'x-api-secret': gateway.console.apiSecret },
    },
  });
  const withToken = () => ({
    authProvider: new ClientCredentialsProvider({
      clientId: gateway.console.apiKey,
      clientSecret: gateway.console.apiSecret,
      expectedIssuer: gateway.url,
    }),
  });

  for (const [what, versions] of [
    ['with the handshake of 2025-11-25', {}],
    ['without a handshake', { versionNegotiation: { mode: 'auto' } }],
    ['pinned to the revision without one', { versionNegotiation: { mode: { pin: '2026-07-28' } } }],
  ] as const)
    for (const [how, options] of [
      ['a pair', withPair],
      ['a token', withToken],
    ] as const)
      test(`${what}, with ${how}: lists the tools and calls them`, async () => {
        const client = await connect(versions, options());
        assert.equal(client.getServerVersion()?.name, 'handoff-gateway');
        const { tools } = await client.listTools();
        assert.equal(tools.length, 22);
        const found = await client.callTool({ name: 'search_members', arguments: { limit: 1 } });
        const [member] = (found.structuredContent as { data: { id: string }[] }).data;
        const given = offerFor(String(member?.id), { intent: 'one quote', trip_id: undefined });
        const wrong = await client.callTool({ name: 'hand_off', arguments: { ...given } });
        assert.equal(wrong.isError, true);
        const right = { ...offerFor(String(member?.id)), intent: `${what} ${how}` };
        const made = await client.callTool({ name: 'hand_off', arguments: right });
        const again = await client.callTool({ name: 'hand_off', arguments: right });
        assert.deepEqual(again.structuredContent, { ...(made.structuredContent as object), replayed: true });
        await assert.rejects(client.callTool({ name: 'no_tool', arguments: {} }), { code: -32602 });
        await client.close();
      });
});
