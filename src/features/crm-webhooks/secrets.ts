import { randomBytes } from 'node:crypto';
import { coalesce } from '../../platform/base/coalesce.ts';
import type { Log } from '../../platform/observability/log.ts';
import {
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../platform/secrets/secrets-manager.ts';

/** Name of the secret that holds the signing secrets of the CRM's webhooks, one a line. */
export const webhookSecretName = 'webhooks/crm';
const folder = 'webhooks';

/** Valid at once at most: each costs a computation for each webhook. */
const maxSecrets = 10;
/** Standard Webhooks asks for 24 to 64 bytes; a shorter secret is refused only where it is weak, a longer one never. */
const minBytes = 16;
const line = /^whsec_([A-Za-z0-9+/]+={0,2})$/;

/** The secrets as the lines of `webhooks/crm` have them, and what is wrong with the other lines. */
export function parseWebhookSecrets(value: string): { secrets: Buffer[]; faults: string[] } {
  const secrets: Buffer[] = [];
  const faults: string[] = [];
  for (const [index, text] of value.split('\n').entries()) {
    const trimmed = text.trim();
    if (trimmed === '') continue;
    const bytes = Buffer.from(line.exec(trimmed)?.[1] ?? '', 'base64');
    if (bytes.length < minBytes) {
      faults.push(`line ${index + 1} is not whsec_ and at least ${minBytes} bytes in base64`);
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
    log.warn({ err, secret: webhookSecretName }, 'no first webhook secret could be made');
  }
}

export interface WebhookSecretsOptions {
  secrets: SecretsManager;
  log: Log;
  refreshSeconds: number;
}

/** The secrets in memory: read again every `refreshSeconds` and on every change that the secrets manager reports. */
export class WebhookSecrets {
  readonly #options: WebhookSecretsOptions;
  readonly #refresh = coalesce(() => this.#readAll());
  #loaded: readonly Buffer[] | undefined;
  #version: string | null | undefined;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #unwatch: (() => void) | undefined;

  constructor(options: WebhookSecretsOptions) {
    this.#options = options;
  }

  /** Undefined until they could be read once; empty where there are none. */
  get loaded(): readonly Buffer[] | undefined {
    return this.#loaded;
  }

  /** Reads them and keeps them up to date until `stop`. Where the secrets manager is unavailable, it is asked again later. */
  async start(): Promise<void> {
    const { secrets, refreshSeconds } = this.#options;
    this.#unwatch = secrets.watch(folder, () => void this.#refresh());
    this.#timer = setInterval(() => void this.#refresh(), refreshSeconds * 1000);
    this.#timer.unref();
    await this.#refresh();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unwatch?.();
    clearInterval(this.#timer);
    // Waits for the reading under way, if there is one.
    await this.#refresh();
  }

  /** Never fails. */
  async #readAll(): Promise<void> {
    if (this.#isStopped) return;
    try {
      const found = await this.#options.secrets.read(webhookSecretName);
      this.#take(found?.value ?? '', found?.version ?? null);
    } catch (err) {
      // What was loaded stays valid; health reports the secrets manager.
      const level = err instanceof SecretsUnavailable ? 'debug' : 'warn';
      this.#options.log[level]({ err }, 'the webhook secrets could not be read again');
    }
  }

  #take(value: string, version: string | null): void {
    if (version === this.#version) return;
    this.#version = version;
    const { secrets, faults } = parseWebhookSecrets(value);
    this.#loaded = secrets;
    const { log } = this.#options;
    if (faults.length > 0) log.warn({ secret: webhookSecretName, faults }, 'webhook secrets are left out');
    if (secrets.length > 0) return log.info({ secrets: secrets.length }, 'webhook secrets loaded');
    log.warn(
      { secret: webhookSecretName },
      'there is no webhook secret, so every webhook is refused: put "whsec_" and 32 random bytes in base64 into it',
    );
  }
}
