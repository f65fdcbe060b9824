import { BlockList, isIP, SocketAddress } from 'node:net';

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
  return isIP(address) === 6 ? new SocketAddress({ address, family: 'ipv6' }).address : text.slice(0, 64);
}

/** Whether the text is an IPv4 or IPv6 address, or a block of them as CIDR writes it. */
export function isAddressOrBlock(text: string): boolean {
  const { address, version, prefix } = parseBlock(text);
  const bits = version === 4 ? 32 : 128;
  return version !== 0 && !address.includes('%') && Number.isInteger(prefix ?? 0) && (prefix ?? 0) <= bits;
}

/**
 * Whether an address is one of these, or in one of these blocks; compiled once, since every request asks. IPv4 mapped to
 * IPv6 counts as IPv4.
 */
export function compileAddresses(list: readonly string[]): (address: string) => boolean {
  const blocks = new BlockList();
  for (const text of list) {
    const { address, version, prefix } = parseBlock(text);
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

function parseBlock(text: string) {
  const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  return { address, version: isIP(address), prefix: prefix === undefined ? undefined : Number(prefix) };
}

/** An address of a link may name its interface: `fe80::1%eth0`. */
function withoutZone(address: string): string {
  return address.includes('%') ? address.replace(/%.*$/, '') : address;
}
