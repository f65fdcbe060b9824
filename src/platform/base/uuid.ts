/** A UUID of any version, in upper or lower case (RFC 9562 section 4). */
const expression = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** A UUID of version 8 (RFC 9562 section 5.8) of the first 16 bytes of a hash: the same hash gives the same UUID. */
export function uuidOfHash(hash: Uint8Array): string {
  const bytes = Buffer.from(hash.subarray(0, 16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

export function isUuid(text: string): boolean {
  return expression.test(text);
}
