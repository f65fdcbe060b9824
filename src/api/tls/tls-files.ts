import { createHash, X509Certificate } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { clearInterval, clearTimeout, setInterval, setTimeout } from '../../platform/base/chance.ts';
import type { TlsSettings } from '../../platform/settings/table.ts';

export interface TlsMaterial {
  context: SecureContextOptions;
  authorities: ReadonlyMap<string, X509Certificate>;
  digest: string;
}

export class TlsFilesUnusable extends Error {
  override readonly name = 'TlsFilesUnusable';
  readonly digest: string;

  constructor(message: string, digest: string) {
    super(message);
    this.digest = digest;
  }
}

const minVersion = 'TLSv1.2';
const pemCertificate = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Changes within this time are reported once: certificate and key are written one after the other. */
const gatherMs = 200;
/** For file systems without notifications, and for folders that were replaced under their watcher. */
const pollMs = 10_000;

/** Reads the files and checks that they can be served. Throws `TlsFilesUnusable`. */
export async function readTlsFiles({ certFile, keyFile, clientCaFile }: TlsSettings): Promise<TlsMaterial> {
  const cert = await read('tls.certFile', certFile);
  const key = await read('tls.keyFile', keyFile);
  const ca = clientCaFile && (await read('tls.clientCaFile', clientCaFile));
  const digest = digestOf(cert, key, ca ?? '');
  const authorities = ca === undefined ? [] : parseAuthorities(ca, digest);
  const context = {
    cert,
    key,
    minVersion,
    // Left out, a client certificate of any public authority would count.
    ...(clientCaFile && { ca: authorities.map(String) }),
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

/**
 * Calls back soon after one of the files may have changed, and every 10 s anyway. The folders are watched, not the
 * files: a file is mostly replaced by renaming, and Kubernetes renames a link beside it. It keeps no process alive.
 * Returns the way to stop.
 */
export function watchFiles(paths: readonly string[], changed: () => void): () => void {
  let gathering: NodeJS.Timeout | undefined;
  const gather = () => {
    gathering ??= setTimeout(() => {
      gathering = undefined;
      changed();
    }, gatherMs).unref();
  };
  const watchers = [...new Set(paths.map((path) => dirname(path)))].flatMap((folder) =>
    watchOne(folder, gather),
  );
  const polling = setInterval(changed, pollMs).unref();
  return () => {
    clearTimeout(gathering);
    clearInterval(polling);
    for (const watcher of watchers) watcher.close();
  };
}

/** None where the system's watches are used up: then the poll finds changes. */
function watchOne(folder: string, changed: () => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { persistent: false }, changed);
    watcher.on('error', () => watcher.close());
    return [watcher];
  } catch {
    return [];
  }
}
