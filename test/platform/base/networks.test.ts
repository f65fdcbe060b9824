import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { compileNetworks, containsNetworks } from '../../../src/platform/base/networks.ts';

/** Few addresses and many blocks, so that they meet; each IPv4 one also as it is mapped to IPv6. */
const ipv4 = fc
  .record({
    last: fc.nat(255),
    third: fc.nat(1),
    bits: fc.option(fc.integer({ min: 22, max: 32 })),
    mapped: fc.boolean(),
  })
  .map(({ last, third, bits, mapped }) => {
    const address = `${mapped ? '::ffff:' : ''}192.0.${third}.${last}`;
    return bits === null ? address : `${address}/${mapped ? bits + 96 : bits}`;
  });
const ipv6 = fc
  .record({ last: fc.nat(255), bits: fc.option(fc.integer({ min: 118, max: 128 })) })
  .map(({ last, bits }) => `2001:db8::${last.toString(16)}${bits === null ? '' : `/${bits}`}`);
const wide = fc.constantFrom('0.0.0.0/0', '::/0', '::/80', '::ffff:0:0/96', '192.0.0.0/23', '2001:db8::/32');
const list = fc.array(fc.oneof({ weight: 4, arbitrary: ipv4 }, { weight: 3, arbitrary: ipv6 }, wide), {
  maxLength: 6,
});

/** All addresses in which such lists can differ, in both forms. */
const addresses = [0, 1, 2, 3].flatMap((third) =>
  Array.from({ length: 256 }, (_, last) => [
    ...[`192.0.${third}.${last}`, `::ffff:192.0.${third}.${last}`],
    `2001:db8::${(third * 256 + last).toString(16)}`,
  ]).flat(),
);
addresses.push('8.8.8.8', '::1', '2001:db8:1::1', 'fe80::1');

test('one list of networks contains another if it admits every address that the other admits', () => {
  let contained = 0;
  fc.assert(
    fc.property(list, list, fc.boolean(), (outer, inner, isMixed) => {
      const all = isMixed ? [...outer, ...inner.flatMap(halves)] : outer;
      const [isOuter, isInner] = [compileNetworks(all), compileNetworks(inner)];
      const expected = addresses.every((address) => !isInner(address) || isOuter(address));
      contained += Number(expected);
      // What is not among these addresses only the wide ones contain.
      if (containsNetworks(all, inner)) assert.ok(expected);
      else if (expected)
        assert.ok(
          inner.some((block) => isWide(block)),
          JSON.stringify([all, inner]),
        );
    }),
    { numRuns: 300 },
  );
  assert.ok(contained > 50, String(contained));
});

/** A block as its two halves, which are the same addresses. */
function halves(block: string): string[] {
  const [text = '', prefix] = block.split('/');
  const bits = Number(prefix);
  if (prefix === undefined || bits === 0 || text.startsWith('::') || bits >= (text.includes(':') ? 128 : 32))
    return [block];
  const bytes = ipaddr.parse(ipaddr.parseCIDR(block)[0].toString()).toByteArray();
  const at = Math.floor(bits / 8);
  bytes[at] = (bytes[at] ?? 0) ^ (128 >> (bits % 8));
  return [`${text}/${bits + 1}`, `${ipaddr.fromByteArray(bytes).toString()}/${bits + 1}`];
}

function isWide(block: string): boolean {
  return Number(block.split('/')[1] ?? 128) < (block.includes(':') ? 118 : 22);
}
