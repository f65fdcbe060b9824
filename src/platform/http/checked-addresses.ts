import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { compileNetworks, isLoopback, isPublicAddress } from '../base/networks.ts';
import { inTime } from '../base/waiting.ts';

/*
 * What URLs that others name may lead to; such a URL could name a machine inside our own network. A URL is
 * checked when it is given, and again whenever it is used, by the same rules:
 *
 *   - https; http only to this machine, where the settings allow it; no user name; no port below 1024 but 80 and 443;
 *   - a host that is an IP address, in whatever notation, is one of the internet or of the private networks in the
 *     settings. The system does not look up such a host, so that it is checked before;
 *   - a name is looked up once for each connection. All of its addresses are checked, and the connection is made to
 *     those that were checked. The name stays in the request, for TLS and for the receiver.
 */

export interface AddressRules {
  privateNetworks: readonly string[];
  httpToLoopback: boolean;
  /** The addresses of a name, or a failure where it has none; the system's DNS if left out. */
  resolve?: (name: string) => Promise<readonly string[]>;
}

export class AddressFailure extends Error {
  override readonly name = 'AddressFailure';
  readonly kind: 'dns' | 'blocked_address';

  constructor(kind: 'dns' | 'blocked_address') {
    super(kind);
    this.kind = kind;
  }
}

/** Milliseconds for one name server; there may be several. */
const longestAnswerMs = 1500;
const longestLookUpMs = 4000;
const lowestFreePort = 1024;
const usualPorts = new Set(['', '80', '443']);

export function createCheckedAddresses(rules: AddressRules) {
  const { resolve = createResolve() } = rules;
  const isPrivate = compileNetworks(rules.privateNetworks);
  const isAllowed = (address: string) => isPublicAddress(address) || isPrivate(address);

  async function of(host: string): Promise<readonly string[]> {
    const found = await addressesOf(host, resolve);
    if (found.every(isAllowed)) return found;
    throw new AddressFailure('blocked_address');
  }

  const faultOfText = (text: string) => faultOfUrl(text, rules.httpToLoopback);
  return {
    /** The addresses of a host, all of which may be reached. Throws `AddressFailure`. */
    of,
    /** Fault of a URL by its text alone, as the end of a sentence; undefined where there is none. */
    faultOfText,
    /** Fault of a URL by its text and the addresses of its host. One that cannot be looked up now may be known later: no fault. */
    async faultOf(text: string): Promise<string | undefined> {
      const fault = faultOfText(text);
      if (fault !== undefined) return fault;
      const isBlocked = (error: unknown) =>
        error instanceof AddressFailure && error.kind === 'blocked_address';
      const blocked = await of(new URL(text).hostname).then(() => false, isBlocked);
      return blocked ? 'must lead to a public address' : undefined;
    },
  };
}

export type CheckedAddresses = ReturnType<typeof createCheckedAddresses>;

function faultOfUrl(text: string, httpToLoopback: boolean): string | undefined {
  const url = URL.parse(text);
  if (url === null) return 'must be a URL';
  const isPlain = url.protocol === 'http:' && httpToLoopback && isLoopback(url);
  if (url.protocol !== 'https:' && !isPlain) return 'must start with https://';
  if (url.username + url.password !== '') return 'must not have a user name or a password';
  if (!usualPorts.has(url.port) && Number(url.port) < lowestFreePort)
    return `must use port 443, 80, or ${lowestFreePort} and up`;
  return undefined;
}

async function addressesOf(
  host: string,
  resolve: (name: string) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(address) !== 0) return [address];
  // Name servers need not know it (RFC 6761 section 6.3).
  if (/(?:^|\.)localhost\.?$/i.test(host)) return ['127.0.0.1', '::1'];
  const late = () => new AddressFailure('dns');
  const found = await inTime(resolve(host), longestLookUpMs, late).catch(() => []);
  if (found.length === 0) throw late();
  return found;
}

/** Looks names up without the threads that files and cryptography need, which slow name servers would fill. */
function createResolve() {
  const resolver = new Resolver({ timeout: longestAnswerMs, tries: 2 });
  return async (name: string): Promise<string[]> => {
    const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    return found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
  };
}
