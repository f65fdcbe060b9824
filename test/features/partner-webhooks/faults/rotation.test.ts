import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../../support/gateway.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../../support/webhook-receiver.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

describe('a new secret of an endpoint', { skip: !postgres && 'no PostgreSQL' }, () => {
  let proxy: TcpProxy;
  let gateway: TestGateway;
  let receiver: WebhookReceiver;
  before(async () => {
    proxy = await startTcpProxy(postgres?.url ?? '');
    receiver = await startWebhookReceiver();
    gateway = await startGateway({ DATABASE_URL: proxy.url, CHANGES_POLL_SECONDS: '60' });
  });
  after(async () => {
    await gateway.stop();
    receiver.stop();
    await proxy.close();
  });

  const note = 'secret_version = secret_version + 1';

  test('is in force everywhere though a connection breaks, and is to be made again where it may not be', async () => {
    const made = await gateway.request('/v1/webhook-endpoints', { body: { url: receiver.url } });
    const one = `/v1/webhook-endpoints/${((await made.json()) as { id: string }).id}`;
    const rotate = () =>
      gateway.request(`${one}/rotate-secret`, { method: 'POST', body: { grace_window_hours: 0 } });
    const isSignedBy = async (rotated: Response) => {
      assert.equal(rotated.status, 200);
      const { secret } = (await rotated.json()) as { secret: string };
      const { length } = receiver.received;
      assert.equal((await gateway.request(`${one}/test`, { method: 'POST' })).status, 202);
      const got = (await receiver.until(length + 1)).at(-1);
      new Webhook(secret).verify(got?.body ?? '', got?.headers ?? {});
    };
    // What it signs with is known from here on.
    await isSignedBy(await rotate());
    const noting = proxy.holdRequests(note);
    const broken = rotate();
    await noting.hit();
    noting.cut();
    await isSignedBy(await broken);
    const hanging = proxy.holdRequests(note);
    const { detail } = await assertProblem(await rotate(), 503, 'store_unavailable');
    assert.match(detail, /rotate it again/);
    hanging.release();
    await eventually(async () => isSignedBy(await rotate()));
  });
});
