import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  certificateNamesIn,
  readCertificateName,
} from '../../../src/identity/consumers/certificate-names.ts';

test('a DNS name, URI or e-mail address is read in one form', () => {
  assert.equal(readCertificateName('Orders.Partner.example'), 'orders.partner.example');
  assert.equal(readCertificateName('spiffe://Partner/Orders'), 'spiffe://Partner/Orders');
  assert.equal(readCertificateName('Ops@Partner.example'), 'Ops@partner.example');
  for (const wrong of [
    '',
    '*.a.example',
    'a..example',
    '192.0.2.1',
    '::1',
    'a example',
    'a@b@c.example',
    'ä.example',
  ])
    assert.equal(readCertificateName(wrong), undefined, wrong);
});

test('a name that looks like the next one stays one name', () => {
  const text =
    'DNS:"evil.example, DNS:victim.example", URI:"spiffe://a, DNS:victim.example", DNS:own.example';
  assert.deepEqual([...certificateNamesIn(text)], ['own.example']);
  assert.deepEqual([...certificateNamesIn('othername:<unsupported>, DNS:own.example')], ['own.example']);
  assert.deepEqual([...certificateNamesIn('DNS:"broken, DNS:victim.example')], []);
  assert.deepEqual([...certificateNamesIn(undefined)], []);
});

test('what is of another kind than it says does not count', () => {
  const text = 'URI:victim.example, email:victim.example, DNS:ops@victim.example, IP Address:192.0.2.1';
  assert.deepEqual([...certificateNamesIn(text)], []);
});
