/** A UUID of any version, in upper or lower case (RFC 9562 section 4). */
const expression = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** Whether the text is a UUID, in upper or lower case. */
export function isUuid(text: string): boolean {
  return expression.test(text);
}
