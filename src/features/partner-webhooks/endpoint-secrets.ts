import { randomBytes, wallMs } from '../../platform/base/chance.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { Problem } from '../../platform/base/problem.ts';
import {
  retryOnConflict,
  type Secret,
  type SecretsManager,
  VersionConflict,
} from '../../platform/secrets/secrets-manager.ts';

const folder = 'webhook-endpoints';
const prefix = 'whsec_';
const nameOf = (id: string) => `${folder}/${id}`;

/** Bytes of a secret; Standard Webhooks asks for 24 to 64. */
const secretBytes = 32;
/** Secrets of one endpoint that are valid at once; each costs a signature for each delivery. */
const maxPrevious = 4;
const maxKept = 10_000;

interface Stored {
  secret: string;
  /** Earlier secrets sign too, until their time. RFC 3339. */
  previous: { secret: string; expires_at: string }[];
}

/** The signing secrets of endpoints. All methods throw `SecretsUnavailable`. */
export class EndpointSecrets {
  readonly #secrets: SecretsManager;
  readonly #kept = new Map<string, { version: string; stored: Stored | undefined }>();

  constructor(secrets: SecretsManager) {
    this.#secrets = secrets;
  }

  /**
   * The secrets that sign now; none where the endpoint has none that can be read. What was read is kept as long as the endpoint's
   * `version` is the same.
   */
  async of(id: string, version: string, now = wallMs()): Promise<Buffer[]> {
    let kept = this.#kept.get(id);
    if (kept?.version !== version) {
      kept = { version, stored: parse(await this.#secrets.read(nameOf(id))) };
      // Without one it may be in the making, and there in a moment.
      if (kept.stored !== undefined) this.#keep(id, kept);
    }
    if (kept.stored === undefined) return [];
    const valid = kept.stored.previous.filter(({ expires_at }) => now < Date.parse(expires_at));
    return [kept.stored, ...valid].map(({ secret }) => Buffer.from(secret.slice(prefix.length), 'base64'));
  }

  /**
   * Makes a new secret, also where there is none that can be read; those before it stay valid until then at most. Returns it.
   */
  renew(id: string, previousUntil: Date): Promise<string> {
    return changing(() => this.#renewOnce(id, previousUntil));
  }

  async #renewOnce(id: string, previousUntil: Date): Promise<string> {
    const found = await this.#secrets.read(nameOf(id));
    const old = parse(found);
    const until = previousUntil.toISOString();
    const previous = [...(old ? [{ secret: old.secret, expires_at: until }] : []), ...(old?.previous ?? [])]
      .map((one) => ({ ...one, expires_at: one.expires_at < until ? one.expires_at : until }))
      .filter(({ expires_at }) => Date.parse(expires_at) > wallMs())
      .slice(0, maxPrevious);
    const secret = `${prefix}${randomBytes(secretBytes).toString('base64')}`;
    await this.#secrets.write(nameOf(id), JSON.stringify({ secret, previous }), found?.version ?? null);
    return secret;
  }

  remove(id: string): Promise<void> {
    this.#kept.delete(id);
    return changing(async () => {
      const found = await this.#secrets.read(nameOf(id));
      if (found) await this.#secrets.delete(nameOf(id), found.version);
    });
  }

  #keep(id: string, kept: { version: string; stored: Stored | undefined }): void {
    this.#kept.delete(id);
    this.#kept.set(id, kept);
    forgetOldest(this.#kept, maxKept);
  }
}

async function changing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await retryOnConflict(work);
  } catch (error) {
    if (!(error instanceof VersionConflict)) throw error;
    throw new Problem(
      'conflict',
      'The secret of this endpoint was changed by other requests at the same time.',
    );
  }
}

/** Undefined also where it is not as it was written. */
function parse(found: Secret | undefined): Stored | undefined {
  try {
    const { secret, previous } = JSON.parse(found?.value ?? 'null') as Stored;
    if ([{ secret }, ...previous].every((one) => one.secret.startsWith(prefix))) return { secret, previous };
  } catch {
    // The parser quotes the text.
  }
  return undefined;
}
