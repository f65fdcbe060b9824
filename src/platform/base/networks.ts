import { BlockList, isIP, SocketAddress } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Whether the host of a URL is this machine, so that what is sent in the clear never leaves it. */
export function isLoopback({ hostname }: URL): boolean {
  // A URL has any spelling of an IPv4 address as four numbers; `127.0.0.1.example` is a name.
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

const mappedIpv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/**
 * An address in the one form in which it is stored and compared: IPv4 mapped to IPv6 is IPv4, and IPv6 is as short as RFC
 * 5952 has it. Text that is no address, as a trusted proxy may send it, stays text of up to 64 characters.
 */
export function normaliseAddress(text: string): string {
  if (!text.includes(':')) return text.slice(0, 64);
  const mapped = mappedIpv4.exec(text)?.[1];
  if (mapped !== undefined) return mapped;
  const address = withoutZone(text);
  if (isIP(address) !== 6) return text.slice(0, 64);
  const short = new SocketAddress({ address, family: 'ipv6' }).address;
  // It may have been written in hex: `::ffff:c000:201`.
  return mappedIpv4.exec(short)?.[1] ?? short;
}

/**
 * The network that counts as one address: of IPv6 the first 64 bits, since the holder of one address of such a network
 * has all of them. IPv4 mapped to IPv6 is IPv4.
 */
export function networkOf(address: string): string {
  return firstPartOf(normaliseAddress(address), { bytes: 4, groups: 4 });
}

/** The network of a site: of IPv4 the first 24 bits, of IPv6 the first 48. Who has an address there usually has others. */
export function siteOf(address: string): string {
  const first = firstPartOf(address, { bytes: 3, groups: 3 });
  if (first === address) return address;
  return address.includes(':') ? `${first}::/48` : `${first}.0/24`;
}

/**
 * This many first bytes of an IPv4 address, in the form of `normaliseAddress`, or this many first groups of an IPv6 address,
 * without what follows. Other text stays as it is.
 */
function firstPartOf(address: string, { bytes, groups }: { bytes: number; groups: number }): string {
  const version = isIP(address);
  if (version === 0) return address;
  if (version === 4) return address.split('.').slice(0, bytes).join('.');
  const { parts } = ipaddr.IPv6.parse(address);
  const first = parts.slice(0, groups);
  return first.map((part) => part.toString(16)).join(':');
}

export function isNetwork(text: string): boolean {
  return text.includes('/') && isAddressOrNetwork(text);
}

export function isAddressOrNetwork(text: string): boolean {
  const { address, version, prefix } = parseNetwork(text);
  const bits = version === 4 ? 32 : 128;
  return version !== 0 && !address.includes('%') && (prefix ?? 0) <= bits;
}

/**
 * Whether an address is one of these, or in one of these blocks; compiled once, since every request asks. IPv4 mapped to
 * IPv6 counts as IPv4.
 */
export function compileNetworks(list: readonly string[]): (address: string) => boolean {
  const blocks = new BlockList();
  for (const text of list) {
    const { address, version, prefix } = parseNetwork(text);
    const family = version === 4 ? 'ipv4' : 'ipv6';
    if (prefix === undefined) blocks.addAddress(address, family);
    else blocks.addSubnet(address, prefix, family);
  }
  return (text) => {
    const address = withoutZone(text);
    const version = isIP(address);
    return version !== 0 && blocks.check(address, version === 4 ? 'ipv4' : 'ipv6');
  };
}

/**
 * Whether the outer list contains every address of the inner one. Both have addresses and blocks as for `compileNetworks`;
 * IPv4 addresses are compared as IPv4-mapped IPv6 addresses.
 */
export function containsNetworks(outer: readonly string[], inner: readonly string[]): boolean {
  const ranges: AddressRange[] = [];
  for (const range of outer.map(rangeOf).sort((a, b) => (a.first < b.first ? -1 : 1))) {
    const before = ranges.at(-1);
    // Adjacent ranges are merged: two halves of a block are the block.
    if (before === undefined || range.first > before.last + 1n) ranges.push(range);
    else if (range.last > before.last) before.last = range.last;
  }
  return inner
    .map(rangeOf)
    .every(({ first, last }) => ranges.some((range) => range.first <= first && last <= range.last));
}

interface AddressRange {
  first: bigint;
  last: bigint;
}

function rangeOf(text: string): AddressRange {
  const { address, version, prefix } = parseNetwork(text);
  const ipv6 = version === 4 ? ipaddr.IPv4.parse(address).toIPv4MappedAddress() : ipaddr.IPv6.parse(address);
  const bits = version === 4 ? 32 : 128;
  const size = 1n << BigInt(bits - (prefix ?? bits));
  const number = BigInt(`0x${Buffer.from(ipv6.toByteArray()).toString('hex')}`);
  const first = number - (number % size);
  return { first, last: first + size - 1n };
}

function parseNetwork(text: string) {
  const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  return { address, version: isIP(address), prefix: prefix === undefined ? undefined : Number(prefix) };
}

/** An address of a link may name its interface: `fe80::1%eth0`. */
function withoutZone(address: string): string {
  return address.includes('%') ? address.replace(/%.*$/, '') : address;
}

/** All IPv6 addresses of the internet (RFC 4291 section 2.4); the library also takes those without any use for public. */
const isPublicIpv6 = compileNetworks(['2000::/3']);
/** Public by its block, and yet every virtual machine of Azure finds its host there. */
const azureHost = '168.63.129.16';

/**
 * Whether an address belongs to one machine on the internet: not private, loopback, link-local, multicast, reserved, of
 * documentation, or one that leads to another address (mapped, NAT64, 6to4, Teredo).
 */
export function isPublicAddress(text: string): boolean {
  const address = ipaddr.process(text);
  if (address.range() !== 'unicast' || address.toString() === azureHost) return false;
  return address.kind() === 'ipv4' || isPublicIpv6(text);
}
