/** A UUID of any version, in either case (RFC 9562 section 4). */
export const uuidPattern = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$';

const expression = new RegExp(uuidPattern);

/** Whether the text is a UUID, in either case. */
export function isUuid(text: string): boolean {
  return expression.test(text);
}
