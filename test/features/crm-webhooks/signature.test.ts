import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { parseWebhookSecrets } from '../../../src/features/crm-webhooks/secrets.ts';
import { checkSignature } from '../../../src/features/crm-webhooks/webhooks.ts';

/** The vector that the libraries of Standard Webhooks have in their tests. */
const vector = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  body: '{"test": 2432232314}',
  at: 1_614_265_330_000,
  headers: {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  },
};

interface Attempt {
  headers?: Record<string, string | string[] | undefined>;
  body?: string;
  at?: number;
  secrets?: string;
}

function check({ headers = {}, body = vector.body, at = vector.at, secrets = vector.secret }: Attempt = {}) {
  const { secrets: keys } = parseWebhookSecrets(secrets);
  return checkSignature({ ...vector.headers, ...headers }, Buffer.from(body), keys, at);
}

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

describe('a signature', () => {
  test('is right in the published vector, and the package agrees on it', () => {
    assert.equal(check(), undefined);
    const { 'webhook-id': id, 'webhook-signature': signature } = vector.headers;
    assert.equal(new Webhook(vector.secret).sign(id, new Date(vector.at), vector.body), signature);
  });

  test('that the package makes is right here, whatever is signed', () => {
    const now = Date.now();
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9_-]{1,60}$/), fc.string({ unit: 'grapheme' }), (id, body) => {
        const secret = newSecret();
        const signature = new Webhook(secret).sign(id, new Date(now), body);
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(now / 1000)),
          'webhook-signature': signature,
        };
        assert.equal(check({ headers, body, at: now, secrets: secret }), undefined);
        assert.equal(check({ headers, body: `${body} `, at: now, secrets: secret }), 'signature');
        assert.equal(check({ headers, body, at: now, secrets: newSecret() }), 'signature');
      }),
    );
  });

  test('holds for its id and its time', () => {
    assert.equal(check({ headers: { 'webhook-id': 'msg_other' } }), 'signature');
    assert.equal(check({ headers: { 'webhook-timestamp': '1614265331' } }), 'signature');
  });

  test('is good for 300 seconds, either way', () => {
    for (const seconds of [0, 300, -300]) assert.equal(check({ at: vector.at + seconds * 1000 }), undefined);
    for (const seconds of [301, -301, 86_400])
      assert.equal(check({ at: vector.at + seconds * 1000 }), 'timestamp');
  });

  test('may stand among others, of which one is right', () => {
    const right = vector.headers['webhook-signature'];
    const wrong = `v1,${randomBytes(32).toString('base64')}`;
    for (const list of [
      `${wrong} ${right}`,
      `${right} ${wrong}`,
      `v1a,abc= v2,x ${right}`,
      `, v1, ${right}`,
    ]) {
      assert.equal(check({ headers: { 'webhook-signature': list } }), undefined, list);
    }
    const many = `${`${wrong} `.repeat(10)}${right}`;
    assert.equal(check({ headers: { 'webhook-signature': many } }), 'signature');
  });

  test('that is cut, of another version, or none at all is refused', () => {
    const right = vector.headers['webhook-signature'];
    const others = ['', 'v1,', right.slice(3), right.slice(0, -3), right.replace('v1', 'v1a'), `${right}=`];
    for (const list of others)
      assert.equal(check({ headers: { 'webhook-signature': list } }), 'signature', list);
  });

  test('needs its three headers, each once and of the right form', () => {
    for (const name of Object.keys(vector.headers)) {
      assert.equal(check({ headers: { [name]: undefined } }), 'headers');
      assert.equal(check({ headers: { [name]: ['a', 'b'] } }), 'headers');
    }
    for (const id of ['', 'a.b', 'a b', 'ä', 'x'.repeat(256)])
      assert.equal(check({ headers: { 'webhook-id': id } }), 'headers', id);
    for (const time of ['', '1614265330.0', '1614265330abc', '-1', ' 1614265330', '9'.repeat(13)])
      assert.equal(check({ headers: { 'webhook-timestamp': time } }), 'headers', time);
  });

  test('of any secret of several is right, and without a secret none is', () => {
    assert.equal(check({ secrets: `${newSecret()}\n${vector.secret}\n` }), undefined);
    assert.equal(check({ secrets: '\n' }), 'no secret');
  });
});

describe('the lines of the secret', () => {
  test('are taken each for itself, and a faulty one is named without what it holds', () => {
    const good = newSecret();
    const text = `\r\n${good}\r\n\nsesame-open\nwhsec_\nwhsec_c2hvcnQ=\n  ${vector.secret}  `;
    const { secrets, faults } = parseWebhookSecrets(text);
    assert.deepEqual(
      secrets.map((bytes) => `whsec_${bytes.toString('base64')}`),
      [good, vector.secret],
    );
    assert.deepEqual(
      faults.map((fault) => /^line \d+/.exec(fault)?.[0]),
      ['line 4', 'line 5', 'line 6'],
    );
    assert.doesNotMatch(faults.join(), /sesame|c2hvcnQ/);
  });

  test('are ten at most', () => {
    const { secrets, faults } = parseWebhookSecrets(Array.from({ length: 12 }, newSecret).join('\n'));
    assert.equal(secrets.length, 10);
    assert.equal(faults.length, 2);
  });
});
