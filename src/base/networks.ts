import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Blocks of IP addresses. */
export interface Networks {
  /** Whether an address is in one of them. An IPv4 address that is mapped to IPv6 counts as the former. */
  has(address: string): boolean;
}

/** Whether the text is a block in CIDR notation, such as `10.0.0.0/8` or `fd00::/8`. */
export function isNetwork(text: string): boolean {
  const [address = '', length = '', ...rest] = text.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] as number;
  return rest.length === 0 && /^\d{1,3}$/.test(length) && Number(length) <= bits;
}

/** The blocks, each as `isNetwork` takes it. */
export function createNetworks(blocks: readonly string[]): Networks {
  const parsed = blocks.map((block) => ipaddr.parseCIDR(block));
  return {
    has(text) {
      const address = ipaddr.process(text);
      return parsed.some((block) => address.kind() === block[0].kind() && address.match(block));
    },
  };
}

/** All IPv6 addresses of the internet (RFC 4291 section 2.4); the library also takes those without any use for public. */
const publicIpv6 = createNetworks(['2000::/3']);
/** Public by its block, and yet every virtual machine of Azure finds its host there. */
const azureHost = '168.63.129.16';

/**
 * Whether an address belongs to one machine on the internet: not private, loopback, link-local, multicast, reserved, of
 * documentation, or one that leads to another address (mapped, NAT64, 6to4, Teredo).
 */
export function isPublicAddress(text: string): boolean {
  const address = ipaddr.process(text);
  if (address.range() !== 'unicast' || address.toString() === azureHost) return false;
  return address.kind() === 'ipv4' || publicIpv6.has(text);
}
