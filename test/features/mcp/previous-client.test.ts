import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fetchPackage } from '../../support/fetched-package.ts';
import { startGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';

/*
 * The official client of the previous generation, fetched by npm when the test runs: with it the project would have more packages
 * than it is to have. Where it cannot be fetched, the test is skipped.
 */

const sdk = '@modelcontextprotocol/sdk';
const version = '1.32.2';

interface Result {
  isError?: boolean;
  structuredContent?: Record<string, unknown>;
}

/** What the test uses of the package. */
interface Sdk {
  Client: new (info: {
    name: string;
    version: string;
  }) => {
    connect(transport: object): Promise<void>;
    getServerVersion(): { name: string } | undefined;
    listTools(): Promise<{ tools: { name: string }[] }>;
    callTool(call: { name: string; arguments: object }): Promise<Result>;
    close(): Promise<void>;
  };
  StreamableHTTPClientTransport: new (
    url: URL,
    options: { requestInit: { headers: Record<string, string> } },
  ) => object;
}

describe('the official client of the previous generation', () => {
  test('lists the tools, and does an intent once', { timeout: 300_000 }, async (context) => {
    await using opened = new AsyncDisposableStack();
    const fetched = opened.use(await fetchPackage(sdk, version));
    if (!fetched) return context.skip(`${sdk}@${version} could not be fetched: nothing of it was run`);
    const found = {
      ...(await fetched.load<Pick<Sdk, 'Client'>>('dist/esm/client/index.js')),
      ...(await fetched.load<Omit<Sdk, 'Client'>>('dist/esm/client/streamableHttp.js')),
    };
    const gateway = await startGateway({ CHANGES_POLL_SECONDS: '60' });
    opened.defer(() => gateway.stop());

    const client = new found.Client({ name: 'test', version: '1.0.0' });
    const headers = { 'x-api-key': gateway.console.apiKey, 'x-api-secret': gateway.console.apiSecret };
    await client.connect(
      new found.StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), { requestInit: { headers } }),
    );
    assert.equal(client.getServerVersion()?.name, 'handoff-gateway');
    const { tools } = await client.listTools();
    assert.equal(tools.length, 22);
    const wrong = await client.callTool({ name: 'hand_off', arguments: { intent: 'nothing of it' } });
    assert.equal(wrong.isError, true);
    assert.equal(wrong.structuredContent?.['code'], 'invalid_request');
    const offer = { ...offerFor(gateway.org.memberId), intent: 'one quote' };
    const made = await client.callTool({ name: 'hand_off', arguments: offer });
    assert.equal(made.structuredContent?.['status'], 'created');
    const again = await client.callTool({ name: 'hand_off', arguments: offer });
    assert.deepEqual(again.structuredContent, { ...made.structuredContent, replayed: true });
    await client.close();
  });
});
