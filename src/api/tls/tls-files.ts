import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';

/** The settings `tls.*`. */
export interface TlsSettings {
  /** Certificate chain, PEM. */
  certFile: string;
  /** Its private key, PEM. */
  keyFile: string;
  /** What clients are asked for; undefined: nothing. */
  clients: { caFile: string; auth: 'optional' | 'required' } | undefined;
}

/** What the files hold, checked: it can be served. */
export interface TlsMaterial {
  /** Everything that a secure context is made of: setting a new one replaces the old one whole. */
  context: SecureContextOptions;
  /** Those whose client certificates are trusted, by fingerprint. */
  authorities: ReadonlyMap<string, X509Certificate>;
  /** Same digest, same files. */
  digest: string;
}

/** The files can't be used; the message names the setting and holds nothing of the key. */
export class TlsFilesUnusable extends Error {
  override readonly name = 'TlsFilesUnusable';
  /** Same digest, same fault. */
  readonly digest: string;

  constructor(message: string, digest: string) {
    super(message);
    this.digest = digest;
  }
}

const minVersion = 'TLSv1.2';
const pemCertificate = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Reads the files and checks that they can be served. Throws `TlsFilesUnusable`. */
export async function readTlsFiles({ certFile, keyFile, clients }: TlsSettings): Promise<TlsMaterial> {
  const cert = await read('tls.certFile', certFile);
  const key = await read('tls.keyFile', keyFile);
  const ca = clients && (await read('tls.clientCaFile', clients.caFile));
  const digest = digestOf(cert, key, ca ?? '');
  const authorities = ca === undefined ? [] : parseAuthorities(ca, digest);
  const context = {
    cert,
    key,
    minVersion,
    // Left out, a client certificate of any public authority would count.
    ...(clients && { ca: authorities.map(String) }),
  } satisfies SecureContextOptions;
  try {
    createSecureContext(context);
  } catch (error) {
    throw new TlsFilesUnusable(
      `tls.certFile and tls.keyFile can't be served: ${(error as Error).message}`,
      digest,
    );
  }
  return {
    context,
    authorities: new Map(authorities.map((trusted) => [trusted.fingerprint256, trusted])),
    digest,
  };
}

async function read(setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const message = `${setting} can't be read: ${(error as Error).message}`;
    throw new TlsFilesUnusable(message, digestOf(message));
  }
}

function parseAuthorities(pem: string, digest: string): X509Certificate[] {
  const found = pem.match(pemCertificate) ?? [];
  if (found.length === 0) throw new TlsFilesUnusable('tls.clientCaFile holds no certificate in PEM', digest);
  try {
    return found.map((certificate) => new X509Certificate(certificate));
  } catch (error) {
    const message = `tls.clientCaFile holds a certificate that can't be read: ${(error as Error).message}`;
    throw new TlsFilesUnusable(message, digest);
  }
}

function digestOf(...texts: string[]): string {
  return createHash('sha256').update(JSON.stringify(texts)).digest('hex');
}
