import { isIP } from 'node:net';

/** Names of one consumer at most. */
export const maxCertificateNames = 20;
/** Characters of one at most: an address of a mailbox and a long URI fit. */
export const maxCertificateNameLength = 320;

export const certificateNameRule =
  'must be a DNS name, URI or e-mail address of a certificate, as its subject alternative names have it; a wildcard is none';

const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const dnsPattern = new RegExp(`^${label}(?:\\.${label})*$`, 'i');
const uriPattern = /^[a-z][a-z0-9+-]*:[!-)+-~]+$/i;
const emailPattern = /^[!-)+-?A-~]+@([^@]+)$/;

/** The name as it is stored and compared; undefined where it is none, or has a wildcard. */
export function readCertificateName(text: string): string | undefined {
  if (text.length > maxCertificateNameLength) return undefined;
  if (isDnsName(text)) return text.toLowerCase();
  const [, domain] = emailPattern.exec(text) ?? [];
  if (domain !== undefined && !uriPattern.test(text)) return isDnsName(domain) ? emailOf(text) : undefined;
  return uriPattern.test(text) ? text : undefined;
}

function isDnsName(text: string): boolean {
  return dnsPattern.test(text) && isIP(text) === 0;
}

/** The host of an address may be in any case (RFC 5280, 7.5). */
function emailOf(text: string): string {
  const at = text.lastIndexOf('@');
  return text.slice(0, at) + text.slice(at).toLowerCase();
}

const forms: Readonly<Record<string, (name: string) => boolean>> = {
  DNS: isDnsName,
  URI: (name) => uriPattern.test(name),
  email: (name) => !uriPattern.test(name) && emailPattern.test(name),
};

/**
 * The names in the text of `X509Certificate.subjectAltName`, in the form of `readCertificateName`; what is of another kind
 * than it says is left out. A name with characters that would look like the next one stands there as a JSON string.
 */
export function certificateNamesIn(subjectAltName: string | undefined): ReadonlySet<string> {
  const names = new Set<string>();
  const entry = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?=, |$)/gy;
  for (const [, form = '', text = ''] of (subjectAltName ?? '').matchAll(entry)) {
    const name = text.startsWith('"') ? textOf(text) : text;
    const read = forms[form]?.(name) ? readCertificateName(name) : undefined;
    if (read !== undefined) names.add(read);
  }
  return names;
}

function textOf(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return '';
  }
}
