import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A certificate and its key in files, and what they hold. */
export interface Certificate {
  certFile: string;
  keyFile: string;
  cert: string;
  key: string;
  /** SHA-256 of the DER, hex with colons. */
  fingerprint: string;
}

/** A folder of certificates, made with openssl. */
export interface Certificates {
  dir: string;
  authority(name: string): Promise<Certificate>;
  /** Signed by the authority; for 127.0.0.1 and for clients alike, unless `names` says for whom: `DNS:a.example`. */
  issue(name: string, authority: Certificate, names?: string): Promise<Certificate>;
  /** For clients, begun a year ago; negative days: it has ended. */
  issueEnding(name: string, authority: Certificate, days: number): Promise<Certificate>;
  remove(): Promise<void>;
}

const openssl = promisify(execFile);

export async function createCertificates(): Promise<Certificates> {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-certificates-'));
  const request = (name: string) => {
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    return ['req', ...newKey, '-keyout', join(dir, `${name}.key`), '-subj', `/CN=${name}`];
  };
  const pemOf = (name: string) => join(dir, `${name}.pem`);
  const signer = ({ certFile, keyFile }: Certificate) => ['-CA', certFile, '-CAkey', keyFile];
  const make = async (name: string, args: string[]): Promise<Certificate> => {
    await openssl('openssl', [...request(name), '-x509', '-out', pemOf(name), '-days', '2', ...args]);
    return readCertificate(dir, name);
  };
  return {
    dir,
    authority: (name) => make(name, []),
    issue: (name, authority, names = 'IP:127.0.0.1') => {
      const uses = 'extendedKeyUsage=serverAuth,clientAuth';
      const extensions = [uses, 'basicConstraints=critical,CA:FALSE', `subjectAltName=${names}`];
      return make(name, [...signer(authority), ...extensions.flatMap((text) => ['-addext', text])]);
    },
    issueEnding: async (name, authority, days) => {
      const csr = join(dir, `${name}.csr`);
      await openssl('openssl', [...request(name), '-new', '-out', csr]);
      // The only command of OpenSSL 3.0 that takes a start.
      const config = [
        ...['[ca]', 'default_ca = own', '[own]', `database = ${name}.index`, `new_certs_dir = ${dir}`],
        ...['default_md = sha256', 'rand_serial = yes', 'policy = any', '[any]', 'commonName = supplied'],
      ];
      await writeFile(join(dir, `${name}.cnf`), config.join('\n'));
      await writeFile(join(dir, `${name}.index`), '');
      const range = ['-startdate', instant(-365), '-enddate', instant(days)];
      const sign = ['ca', '-batch', '-notext', '-config', `${name}.cnf`, '-in', csr];
      const from = ['-cert', authority.certFile, '-keyfile', authority.keyFile, '-out', pemOf(name)];
      await openssl('openssl', [...sign, ...from, ...range], { cwd: dir });
      return readCertificate(dir, name);
    },
    remove: () => rm(dir, { recursive: true, maxRetries: 5 }),
  };
}

/** So many days from now, as openssl takes it. */
function instant(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().replace(/[-T:]|\.\d+/g, '');
}

async function readCertificate(dir: string, name: string): Promise<Certificate> {
  const certFile = join(dir, `${name}.pem`);
  const keyFile = join(dir, `${name}.key`);
  const cert = await readFile(certFile, 'utf8');
  const key = await readFile(keyFile, 'utf8');
  return { certFile, keyFile, cert, key, fingerprint: new X509Certificate(cert).fingerprint256 };
}

/** A certificate of its own for a private key (PEM), which ends in so many days. */
export async function certificateOf(privateKey: string, days: number): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'handoff-certificate-'));
  try {
    const keyFile = join(dir, 'key');
    await writeFile(keyFile, privateKey, { mode: 0o600 });
    const args = ['req', '-x509', '-key', keyFile, '-days', String(days), '-subj', '/CN=handoff-gateway'];
    return (await openssl('openssl', args)).stdout;
  } finally {
    await rm(dir, { recursive: true });
  }
}
