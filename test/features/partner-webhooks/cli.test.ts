import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CommandLine } from '../../support/command-line.ts';
import { eventually } from '../../support/eventually.ts';
import { startGateway } from '../../support/gateway.ts';
import { startPostgres } from '../../support/postgres.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

test('handoff delivery lists deliveries and sends one again, beside a running service', {
  skip: !postgres && 'no PostgreSQL',
}, async () => {
  await using opened = new AsyncDisposableStack();
  const gateway = await startGateway({ DATABASE_URL: postgres?.url, CHANGES_POLL_SECONDS: '3600' });
  opened.defer(() => gateway.stop());
  const receiver = await startWebhookReceiver();
  opened.defer(() => receiver.stop());
  const commands = new CommandLine();
  opened.defer(() => commands.stop());
  const handoff = (...args: string[]) => {
    const env = { DATA_DIR: gateway.dataDir, DATABASE_URL: postgres?.url };
    return commands.run(['--config', join(gateway.dataDir, 'config.json'), 'delivery', ...args], { env });
  };
  assert.match((await handoff('list')).stdout, /No deliveries found/);
  const created = await gateway.request('/v1/webhook-endpoints', { body: { url: receiver.url } });
  const { id } = (await created.json()) as { id: string };
  await gateway.request(`/v1/webhook-endpoints/${id}/test`, { method: 'POST' });
  await receiver.until(1);
  // Its result is stored a moment after the receiver has answered.
  const list = await eventually(async () => {
    const { stdout } = await handoff('list', '--endpoint', id, '--json');
    const found = JSON.parse(stdout) as { id: string; status: string }[];
    assert.notEqual(found[0]?.status, 'pending');
    return found;
  });
  assert.equal(list.length, 1);
  const shown = await handoff('list');
  assert.match(shown.stdout, new RegExp(`ping +evt_\\w+ .* ${id}  ${list[0]?.id}$`, 'm'));
  assert.match(
    (await handoff('resend', String(list[0]?.id))).stdout,
    /^A running gateway will send delivery dlv_\w+ again/,
  );
  await receiver.until(2);
  const unknown = await handoff('resend', 'dlv_1');
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /There's no delivery dlv_1/);
  assert.equal((await handoff('list', '--status', 'x')).code, 2);
});
