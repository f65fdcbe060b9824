import { readFileSync } from 'node:fs';
import { isLoopback } from '../base/loopback.ts';
import type { VaultOptions } from './vault.ts';
import type { VaultSignIn } from './vault-session.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const path = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;
const defaultTokenFile = '/var/run/secrets/kubernetes.io/serviceaccount/token';

/**
 * Options of the Vault adapter from environment variables, or a sentence for each that is missing or wrong. An empty
 * variable counts as not set; no sentence holds the token.
 */
export function readVaultEnvironment(env: Environment): VaultOptions | { faults: string[] } {
  const faults: string[] = [];
  const get = (name: string) => env[name]?.trim() || undefined;
  const getPath = (name: string, fallback: string) => {
    const value = get(name) ?? fallback;
    if (!path.test(value))
      faults.push(`${name} must be a path such as ${fallback}, without a slash at either end`);
    return value;
  };
  const address = readAddress(get('VAULT_ADDR'), env['NODE_ENV'] === 'production', faults);
  const mount = getPath('VAULT_MOUNT', 'secret');
  const prefix = getPath('VAULT_PREFIX', 'handoff-gateway');
  const authMount = getPath('VAULT_K8S_MOUNT', 'kubernetes');
  const tokenFile = get('VAULT_K8S_TOKEN_FILE') ?? defaultTokenFile;
  const signIn = readSignIn(
    get('VAULT_TOKEN'),
    get('VAULT_K8S_ROLE'),
    { tokenFile, mount: authMount },
    faults,
  );
  const ca = readAuthorities(get('VAULT_CACERT'), faults);
  const namespace = get('VAULT_NAMESPACE');
  if (namespace !== undefined && !/^[\x21-\x7e]{1,500}$/.test(namespace))
    faults.push('VAULT_NAMESPACE must be a path of a namespace');
  if (signIn === undefined || faults.length > 0) return { faults };
  return { address, mount, prefix, signIn, namespace, ca };
}

function readAddress(address: string | undefined, production: boolean, faults: string[]): string {
  if (address === undefined) {
    faults.push('VAULT_ADDR is missing: the secrets manager is vault');
    return '';
  }
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.search + url.hash !== '') {
    faults.push('VAULT_ADDR must be a URL such as https://vault.example.com:8200');
    return '';
  }
  if (production && url.protocol === 'http:' && !isLoopback(url))
    faults.push('VAULT_ADDR must start with https://: the token would travel in the clear');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

function readSignIn(
  token: string | undefined,
  role: string | undefined,
  kubernetes: { tokenFile: string; mount: string },
  faults: string[],
): VaultSignIn | undefined {
  if (token !== undefined && role !== undefined) {
    faults.push('VAULT_TOKEN and VAULT_K8S_ROLE are both set: only one of them can hold');
  } else if (token !== undefined) {
    // Anything else could not be sent in a header.
    if (/^[\x21-\x7e]+$/.test(token)) return { method: 'token', token };
    faults.push('VAULT_TOKEN is no token: it has characters that none has');
  } else if (role !== undefined) {
    return { method: 'kubernetes', role, ...kubernetes };
  } else {
    faults.push('VAULT_TOKEN or VAULT_K8S_ROLE is missing: the secrets manager is vault');
  }
  return undefined;
}

function readAuthorities(file: string | undefined, faults: string[]): string | undefined {
  if (file === undefined) return undefined;
  try {
    const pem = readFileSync(file, 'utf8');
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem;
    faults.push(`VAULT_CACERT: ${file} holds no certificate in PEM`);
  } catch (error) {
    faults.push(
      `VAULT_CACERT: ${file} can't be read (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`,
    );
  }
  return undefined;
}
