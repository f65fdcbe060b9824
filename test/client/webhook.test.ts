import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { JsonNumber, unwrapWebhook, WebhookVerificationError } from '../../client/src/index.ts';

const secret = `whsec_${Buffer.from('a secret of this test, 32 bytes!').toString('base64')}`;
const other = `whsec_${Buffer.from('another secret of this test').toString('base64')}`;
const body = '{"id":"evt_1","type":"quote.updated","data":{"details":{"n":12345678901234567890,"é":"😀"}}}';

/** The headers that the package `standardwebhooks`, which shares no code with ours, makes. */
function sign(text: string, time = new Date(), key = secret): Record<string, string> {
  const signature = new Webhook(key).sign('evt_1', time, text);
  return {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(time.getTime() / 1000)),
    'webhook-signature': signature,
  };
}

describe('unwrapWebhook', () => {
  test('gives the event of a text or bytes, with headers of either kind', async () => {
    const headers = sign(body);
    const event = await unwrapWebhook(body, headers, secret);
    assert.equal(event.type, 'quote.updated');
    const { n } = (event.data as unknown as { details: { n: JsonNumber } }).details;
    assert.deepEqual(n, new JsonNumber('12345678901234567890'));
    assert.deepEqual(await unwrapWebhook(Buffer.from(body), new Headers(headers), secret), event);
  });

  test('one right signature of several is enough', async () => {
    const headers = sign(body);
    const two = `${sign(body, new Date(), other)['webhook-signature']} ${headers['webhook-signature']}`;
    await unwrapWebhook(body, { ...headers, 'webhook-signature': two }, secret);
  });

  test('says that something has parsed the body', async () => {
    const parsed = JSON.parse(body) as string;
    await assert.rejects(unwrapWebhook(parsed, sign(body), secret), /something has parsed it/);
  });

  // Made in the test: its time counts.
  const refused: [string, string, () => Record<string, string>][] = [
    ['a changed body', body.replace('quote', 'booking'), () => sign(body)],
    ['another id', body, () => ({ ...sign(body), 'webhook-id': 'evt_2' })],
    ['another secret', body, () => sign(body, new Date(), other)],
    ['an old one', body, () => sign(body, new Date(Date.now() - 301_000))],
    ['one from the future', body, () => sign(body, new Date(Date.now() + 305_000))],
    ['a time that is no number', body, () => ({ ...sign(body), 'webhook-timestamp': 'now' })],
    [
      'no signature',
      body,
      () => ({ 'webhook-id': 'evt_1', 'webhook-timestamp': sign(body)['webhook-timestamp'] ?? '' }),
    ],
    ['a signature that is none', body, () => ({ ...sign(body), 'webhook-signature': 'v1,%%% v2,abc' })],
  ];
  for (const [name, text, headers] of refused) {
    test(`refuses ${name}`, async () => {
      await assert.rejects(unwrapWebhook(text, headers(), secret), WebhookVerificationError);
    });
  }
});
