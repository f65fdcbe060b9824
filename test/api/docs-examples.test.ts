import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { pageDocument } from '../../src/api/openapi/readable-page.ts';
import { codeBlocks } from '../docs/pages.ts';
import { eventually } from '../support/eventually.ts';
import { type Credentials, type TestGateway, useGateway } from '../support/gateway.ts';
import { accept } from '../support/handoffs.ts';
import { pastSlowStore } from '../support/problems.ts';

interface Operation {
  operationId: string;
  responses: Record<string, object>;
  'x-codeSamples'?: [{ source: string }];
}

interface Document {
  info: { description: string };
  paths: Record<string, Record<string, Operation>>;
}

/** These need a hand-off that waits or has failed, which a fresh installation has only while its CRM is unavailable. */
const needUnfinished = ['cancelHandoff', 'retryHandoff', 'approveHandoff', 'rejectHandoff'];

/** A guest has one table at a time, a consumer one webhook endpoint at an address. */
const onceOnly = ['rotateOwnConsumer', 'createReservation', 'createWebhookEndpoint'];

interface Caller {
  gateway: TestGateway;
  as: Credentials;
}

const run = promisify(execFile);

/** What the documentation shows, as a reader pastes it, against a service that was started for the first time. */
describe('the commands of /v1/docs', { skip: !hasCurl() && 'there is no curl' }, () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600' });
  let document: Document;
  before(async () => {
    const response = await gateway.request('/v1/docs', { as: null });
    document = pageDocument((await response.json()) as object) as unknown as Document;
  });

  /** Runs a command; resolves to the status and the body of the answer. */
  async function paste(
    command: string,
    { apiKey, apiSecret }: Credentials,
    ids: Record<string, string> = {},
  ) {
    const shell = `set -eu\ncurl() { command curl -w '\\n%{http_code}' "$@"; }\n${command}`;
    const env = {
      ...process.env,
      HANDOFF_URL: gateway.url,
      HANDOFF_API_KEY: apiKey,
      HANDOFF_API_SECRET: apiSecret,
      TRIP_ID: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
    };
    const once = () => run('bash', ['-c', shell], { env: { ...env, ...ids } });
    const { stdout } = await pastSlowStore(once, (output) => output.stdout);
    const end = stdout.lastIndexOf('\n');
    return { status: stdout.slice(end + 1), body: stdout.slice(0, end) };
  }

  test('of the introduction work', async () => {
    const commands = codeBlocks(document.info.description)
      .map(({ text }) => text)
      .filter((text) => text.startsWith('curl'));
    assert.ok(commands.length >= 2);
    for (const command of commands) {
      const { status, body } = await paste(command, gateway.console);
      assert.match(status, /^20[01]$/, `${command}\n${body}`);
    }
  });

  test('of every operation work twice', () => pasteAll(gateway.admin, ['resetTestWorld']));

  test('with a test key, too', async () => {
    const { permissions } = (await (await gateway.request('/v1/consumer', { as: gateway.admin })).json()) as {
      permissions: object[];
    };
    const body = { name: 'T', mode: 'test', permissions };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    await pasteAll((await made.json()) as Credentials, []);
  });

  async function pasteAll(as: Credentials, besides: string[]): Promise<void> {
    const operations = Object.entries(document.paths)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
      )
      .filter(({ operationId }) => ![...needUnfinished, ...besides].includes(operationId));
    // Its usage stands before it in the document; what is deleted is needed before.
    const lateness = ({ method, operationId }: (typeof operations)[number]) =>
      Number(method === 'delete') +
      2 * Number(operationId === 'resetTestWorld') -
      Number(operationId === 'createConsumer');
    const inOrder = operations.toSorted((a, b) => lateness(a) - lateness(b));
    const made = new Map<string, string>();
    made.set('/v1/handoffs', await accept(gateway, {}, { as }));
    let ran = 0;
    for (const { path, method, operationId, responses, ...operation } of inOrder) {
      const command = operation['x-codeSamples']?.[0].source;
      if (command === undefined) continue;
      const [collection = ''] = path.split('/{');
      const ids = await idsIn(path, { gateway, as }, made.get(collection));
      const { status, body } = await paste(command, as, ids);
      assert.ok(status in responses && status < '300', `${operationId}: ${status} ${body}\n${command}`);
      if (method === 'post' && !onceOnly.includes(operationId)) {
        const again = await paste(command, as, ids);
        assert.equal(again.status, status, `${operationId} again: ${again.body}`);
      }
      if (path === collection && status === '201') made.set(path, JSON.parse(body).id);
      ran += 1;
    }
    assert.ok(ran > 40);
  }
});

/** What the example of a path finds in the shell. */
async function idsIn(path: string, caller: Caller, id = ''): Promise<Record<string, string>> {
  const needsDelivery = path.includes('{deliveryId}');
  return { ID: id, ...(needsDelivery && { DELIVERY_ID: await firstDelivery(caller, id) }) };
}

async function firstDelivery({ gateway, as }: Caller, endpoint: string): Promise<string> {
  const path = `/v1/webhook-endpoints/${endpoint}/deliveries`;
  return eventually(async () => {
    const { data } = (await (await gateway.request(path, { as })).json()) as { data: { id: string }[] };
    return data[0]?.id ?? assert.fail('nothing was delivered yet');
  });
}

function hasCurl(): boolean {
  try {
    execFileSync('curl', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
