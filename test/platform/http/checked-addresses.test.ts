import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AddressRules, createCheckedAddresses } from '../../../src/platform/http/checked-addresses.ts';

/** As in production, unless `rules` say otherwise; every name leads to one public address. */
const rulesOf = (rules: Partial<AddressRules> = {}) =>
  createCheckedAddresses({
    privateNetworks: [],
    httpToLoopback: false,
    resolve: async () => ['93.184.215.14'],
    ...rules,
  });

/** Blocks that lead nowhere on the internet, one address of each, as URLs can write it. */
const refused = {
  'loopback, four numbers': '127.0.0.1',
  'loopback, another of its block': '127.255.255.254',
  'loopback, decimal': '2130706433',
  'loopback, hex': '0x7f000001',
  'loopback, hex and short': '0x7f.1',
  'loopback, octal': '0177.0.0.1',
  'loopback, two numbers': '127.1',
  'loopback, trailing dot': '127.0.0.1.',
  'loopback, full-width digits': '１２７.０.０.１',
  'loopback, percent-encoded': '%31%32%37.0.0.1',
  'loopback, ideographic full stops': '127。0。0。1',
  'loopback, IPv6': '[::1]',
  'loopback, IPv6 in full': '[0:0:0:0:0:0:0:1]',
  'loopback, mapped': '[::ffff:127.0.0.1]',
  'loopback, mapped in hex': '[::ffff:7f00:1]',
  'loopback, compatible': '[::127.0.0.1]',
  'loopback, translated': '[::ffff:0:7f00:1]',
  'loopback, NAT64': '[64:ff9b::127.0.0.1]',
  'loopback, local NAT64': '[64:ff9b:1::7f00:1]',
  'loopback, 6to4': '[2002:7f00:1::]',
  'loopback, Teredo': '[2001::80ff:fffe]',
  'loopback, by name': 'localhost',
  'loopback, by name with a trailing dot': 'LOCALHOST.',
  'loopback, by a name below': 'app.localhost',
  unspecified: '0.0.0.0',
  'this network': '0.1.2.3',
  'unspecified, one number': '0',
  'unspecified, IPv6': '[::]',
  'private, 10': '10.1.2.3',
  'private, 172.16': '172.31.255.255',
  'private, 192.168': '192.168.0.1',
  'private, mapped': '[::ffff:10.0.0.1]',
  'private, IPv6': '[fd00::1]',
  'carrier-grade NAT, and metadata of Alibaba': '100.100.100.200',
  'link-local, and metadata of most clouds': '169.254.169.254',
  'metadata, decimal': '2852039166',
  'metadata, mapped': '[::ffff:a9fe:a9fe]',
  'metadata of AWS, IPv6': '[fd00:ec2::254]',
  'metadata of Oracle': '192.0.0.192',
  'host of Azure': '168.63.129.16',
  'host of Azure, mapped': '[::ffff:168.63.129.16]',
  'link-local, IPv6': '[fe80::1]',
  'site-local, IPv6': '[fec0::1]',
  'documentation, 1': '192.0.2.1',
  'documentation, 2': '198.51.100.1',
  'documentation, 3': '203.0.113.1',
  'documentation, IPv6': '[2001:db8::1]',
  'documentation, IPv6, new': '[3fff::1]',
  benchmarks: '198.18.0.1',
  '6to4 relays': '192.88.99.1',
  multicast: '224.0.0.1',
  'multicast, IPv6': '[ff02::1]',
  reserved: '240.0.0.1',
  broadcast: '255.255.255.255',
  discard: '[100::1]',
  'segment routing': '[5f00::1]',
  'without a use': '[4000::1]',
};

describe('addresses that are not of the internet', () => {
  for (const [what, host] of Object.entries(refused)) {
    test(`are refused: ${what}`, async () => {
      assert.equal(await rulesOf().faultOf(`https://${host}/hook`), 'must lead to a public address');
      await assert.rejects(rulesOf().of(new URL(`https://${host}`).hostname), { kind: 'blocked_address' });
    });
  }

  test('are refused behind a name, also where only one of its addresses is', async () => {
    for (const address of ['10.0.0.1', '::1', '::ffff:192.168.1.1', '168.63.129.16', '64:ff9b::a00:1']) {
      const resolve = async () => ['93.184.215.14', address];
      assert.equal(
        await rulesOf({ resolve }).faultOf('https://hooks.example'),
        'must lead to a public address',
      );
    }
  });

  test('are allowed within the private networks, in both notations, and nowhere else', async () => {
    const rules = rulesOf({ privateNetworks: ['10.1.0.0/16', 'fd00:1::/32'] });
    for (const host of ['10.1.2.3', '[::ffff:10.1.2.3]', '[fd00:1::1]'])
      assert.equal(await rules.faultOf(`https://${host}`), undefined, host);
    for (const host of ['10.2.0.1', '[fd00:2::1]', '127.0.0.1', '169.254.169.254'])
      assert.notEqual(await rules.faultOf(`https://${host}`), undefined, host);
  });
});

describe('URLs', () => {
  const faults = {
    'no url': 'must be a URL',
    'https://': 'must be a URL',
    'https://[fe80::1%25eth0]/': 'must be a URL',
    'http://hooks.example/': 'must start with https://',
    'ftp://hooks.example/': 'must start with https://',
    'javascript:alert(1)': 'must start with https://',
    'https://user@hooks.example/': 'must not have a user name or a password',
    'https://user:password@hooks.example/': 'must not have a user name or a password',
    'https://hooks.example:22/': 'must use port 443, 80, or 1024 and up',
    'https://hooks.example:0/': 'must use port 443, 80, or 1024 and up',
    'https://hooks.example:1023/': 'must use port 443, 80, or 1024 and up',
  };
  for (const [url, fault] of Object.entries(faults)) {
    test(`${url} ${fault}`, async () => assert.equal(await rulesOf().faultOf(url), fault));
  }

  test('on the internet are fine', async () => {
    const urls = ['hooks.example', 'hooks.example:443', 'hooks.example:80', 'hooks.example:1024', '8.8.8.8'];
    for (const url of [...urls, 'hooks.example./a?b=c', '[2606:4700::1111]:8443'])
      assert.equal(await rulesOf().faultOf(`https://${url}`), undefined, url);
  });

  test('may be http for this machine only, and only where that is allowed', async () => {
    const outside = rulesOf({ httpToLoopback: true, privateNetworks: ['127.0.0.0/8', '::1/128'] });
    for (const host of ['127.0.0.1:9000', 'localhost:9000', '[::1]:9000', '0x7f.1:9000'])
      assert.equal(await outside.faultOf(`http://${host}`), undefined, host);
    for (const host of ['8.8.8.8', 'localhost.example', '127.0.0.1.example', '10.0.0.1', '[::ffff:7f00:1]'])
      assert.equal(await outside.faultOf(`http://${host}`), 'must start with https://', host);
    const none = rulesOf({ httpToLoopback: true });
    assert.equal(await none.faultOf('http://127.0.0.1:9000'), 'must lead to a public address');
  });
});

describe('names', () => {
  test('without an address are no fault of the URL, and lead nowhere', async () => {
    for (const resolve of [async () => [], async () => Promise.reject(new Error('ENOTFOUND'))]) {
      assert.equal(await rulesOf({ resolve }).faultOf('https://hooks.example'), undefined);
      await assert.rejects(rulesOf({ resolve }).of('hooks.example'), { kind: 'dns' });
    }
  });

  test('are looked up by the name servers of the system', async () => {
    const rules = createCheckedAddresses({ privateNetworks: [], httpToLoopback: false });
    await assert.rejects(rules.of('hooks.invalid'), { kind: 'dns' });
  });
});
