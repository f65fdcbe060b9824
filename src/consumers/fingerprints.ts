/** SHA-256 of a certificate's DER as people write it: hex in either case, with or without colons. */
export const fingerprintPattern = '^(?:[0-9A-Fa-f]{64}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){31})$';

/** The fingerprints as they are stored and compared: each once. */
export function normaliseFingerprints(fingerprints: readonly string[]): string[] {
  return [...new Set(fingerprints.map(normaliseFingerprint))];
}

/** A fingerprint as it is stored and compared: lower-case hex without colons. */
export function normaliseFingerprint(text: string): string {
  return text.replaceAll(':', '').toLowerCase();
}
