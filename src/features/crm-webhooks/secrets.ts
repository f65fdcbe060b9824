import { randomBytes } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import {
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../platform/secrets/secrets-manager.ts';
import { WatchedSecret } from '../../platform/secrets/watched-secret.ts';

/** Name of the secret that holds the signing secrets of the CRM's webhooks, one a line. */
export const webhookSecretName = 'webhooks/crm';
const folder = 'webhooks';

/** Valid at once at most: each costs a computation for each webhook. */
const maxSecrets = 10;
/** Standard Webhooks asks for 24 to 64 bytes; a shorter secret is refused only where it is weak, a longer one never. */
const minBytes = 16;
const line = /^whsec_([A-Za-z0-9+/]+={0,2})$/;

export function parseWebhookSecrets(value: string): { secrets: Buffer[]; faults: string[] } {
  const secrets: Buffer[] = [];
  const faults: string[] = [];
  for (const [index, text] of value.split('\n').entries()) {
    const trimmed = text.trim();
    if (trimmed === '') continue;
    const bytes = Buffer.from(line.exec(trimmed)?.[1] ?? '', 'base64');
    if (bytes.length < minBytes) {
      faults.push(`line ${index + 1} isn't "whsec_" and at least ${minBytes} bytes in base64`);
    } else if (secrets.length === maxSecrets) {
      faults.push(`line ${index + 1} is one too many: ${maxSecrets} secrets are used`);
    } else {
      secrets.push(bytes);
    }
  }
  return { secrets, faults };
}

/**
 * Makes a first secret where there is none, for trying webhooks out; the loser of two first starts leaves it be. Never
 * fails: the service is good for more than webhooks.
 */
export async function makeFirstWebhookSecret(secrets: SecretsManager, log: Log): Promise<void> {
  try {
    if ((await secrets.read(webhookSecretName)) !== undefined) return;
    await secrets.write(webhookSecretName, `whsec_${randomBytes(32).toString('base64')}\n`, null);
  } catch (err) {
    if (err instanceof VersionConflict) return;
    log.warn({ err, secret: webhookSecretName }, "couldn't create a first webhook secret");
  }
}

export function createWebhookSecrets({
  secrets,
  log,
  refreshSeconds,
}: {
  secrets: SecretsManager;
  log: Log;
  refreshSeconds: number;
}): WatchedSecret<readonly Buffer[]> {
  return new WatchedSecret({
    secrets,
    folder,
    refreshSeconds,
    read: () => secrets.read(webhookSecretName),
    parse: (text) => parseAndLog(text, log),
    onFailure: (err) => {
      // Secrets that were loaded stay valid; health reports the secrets manager.
      const level = err instanceof SecretsUnavailable ? 'debug' : 'warn';
      log[level]({ err }, "couldn't reread the webhook secrets");
    },
  });
}

function parseAndLog(text: string, log: Log): Buffer[] {
  const { secrets, faults } = parseWebhookSecrets(text);
  if (faults.length > 0) log.warn({ secret: webhookSecretName, faults }, 'webhook secrets are left out');
  if (secrets.length > 0) log.info({ secrets: secrets.length }, 'webhook secrets loaded');
  else
    log.warn(
      { secret: webhookSecretName },
      'there is no webhook secret, so every webhook is refused: put "whsec_" and 32 random bytes in base64 into it',
    );
  return secrets;
}
