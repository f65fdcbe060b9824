import { hash } from 'node:crypto';

/** What makes a repeat the same request; `body` is the raw bytes as they came. */
export interface RequestIdentity {
  method: string;
  path: string;
  ifMatch: string | undefined;
  body: Uint8Array;
}

/** SHA-256 of the request; the separator can't occur in what it separates. */
export function fingerprint({ method, path, ifMatch, body }: RequestIdentity): Buffer {
  return hash(
    'sha256',
    Buffer.concat([Buffer.from(`${method}\0${path}\0${ifMatch ?? ''}\0`), body]),
    'buffer',
  );
}
