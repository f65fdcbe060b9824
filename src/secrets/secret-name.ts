const segment = '[A-Za-z0-9_-][A-Za-z0-9._-]*';
const expression = new RegExp(`^${segment}(?:/${segment})*$`);
const maxLength = 200;

/** Most bytes that one secret may have. */
export const maxSecretBytes = 64 * 1024;

/** Whether the text names a secret, or a folder of secrets: it can't leave the root and names no hidden file. */
export function isSecretName(name: string): boolean {
  return name.length <= maxLength && expression.test(name);
}

/** Throws `TypeError` for what is no name: a mistake in the program or its settings, not of the secrets manager. */
export function checkSecretName(name: string): void {
  if (isSecretName(name)) return;
  const rule = `1 to ${maxLength} characters, segments of [A-Za-z0-9._-] joined by "/", none with a leading dot`;
  throw new TypeError(`${JSON.stringify(name.slice(0, maxLength))} is not the name of a secret: ${rule}`);
}
