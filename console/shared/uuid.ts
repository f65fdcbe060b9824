const pattern = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

export function isUuid(text: string): boolean {
  return pattern.test(text);
}

/** `what`: trip or member. Undefined where nothing is typed or wrong. */
export function faultOfId(what: string, text: string): string | undefined {
  if (text === '' || isUuid(text)) return undefined;
  return `That's not a ${what} ID. IDs look like 6f9619ff-8b86-4d01-b42d-00cf4fc964ff.`;
}
