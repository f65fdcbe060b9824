import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { build } from 'esbuild';
import { needsChromium, useBrowser } from '../support/browser.ts';
import { useGateway } from '../support/gateway.ts';

/** On the page of the console, whose policy is stricter than that of anybody else's page. */
describe('the client in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();

  test('hands off, reads back with all digits, lists, and distinguishes problems', async () => {
    const { page, close } = await browser.open(`${gateway.url}/console/`);
    const { outputFiles } = await build({
      entryPoints: [join(import.meta.dirname, '../../client/src/index.ts')],
      bundle: true,
      format: 'esm',
      write: false,
    });
    const body = outputFiles[0]?.text ?? '';
    await page.route('**/client.js', (route) => route.fulfill({ contentType: 'text/javascript', body }));
    const settings = JSON.stringify({ baseUrl: gateway.url, ...gateway.console });
    const found = await page.evaluate<unknown[]>(`(async () => {
      const { HandoffClient, HandoffProblem, JsonNumber, makeUuid } = await import('/client.js');
      const client = new HandoffClient(${settings});
      const { data: [member] } = await client.members.list({ limit: 1 }).page();
      const trip_id = makeUuid();
      const details = { n: new JsonNumber('12345678901234567890') };
      const result = { name: 'Hotel', source: 'hotelbeds', details };
      const { external_id, status } = await client.handOff(
        { type: 'quote', trip_id, member_id: member.id, result }, { actor: 'Zoë' });
      const listed = [];
      for await (const quote of client.quotes.list({ trip_id, limit: 1 })) listed.push(quote.id);
      const quote = await client.quotes.retrieve(external_id);
      const problem = await client.quotes.retrieve(makeUuid()).catch((error) => error);
      const { status: health } = await client.health();
      return [status, listed[0] === external_id, String(quote.details.n), quote.created_by.actor,
        problem instanceof HandoffProblem && problem.code, health];
    })()`);
    assert.deepEqual(found, ['created', true, '12345678901234567890', 'Zoë', 'not_found', 'ok']);
    await close();
  });
});
