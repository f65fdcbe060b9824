import { type SecretsManager, VersionConflict } from '../secrets/secrets-manager.ts';

/** A secret that gateway and simulator share; made if there is none. */
export async function readOrMakeSecret(
  secrets: SecretsManager,
  name: string,
  make: () => Promise<string> | string,
): Promise<string> {
  const existing = await secrets.read(name);
  if (existing) return existing.value;
  const value = await make();
  try {
    await secrets.write(name, value, null);
    return value;
  } catch (error) {
    // Another process made one first; its secret is the one.
    if (error instanceof VersionConflict) return readOrMakeSecret(secrets, name, make);
    throw error;
  }
}
