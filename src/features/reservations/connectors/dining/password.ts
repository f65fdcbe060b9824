import { monotonicMs } from '../../../../platform/base/chance.ts';
import { Problem } from '../../../../platform/base/problem.ts';
import type { SecretsManager } from '../../../../platform/secrets/secrets-manager.ts';
import { PartnerFailure } from './partner-failure.ts';

/** The password in the secrets manager: a rotated one is used without a restart. */
export function createPassword({
  secrets,
  name,
  refreshSeconds,
}: {
  secrets: SecretsManager;
  name: string;
  refreshSeconds: number;
}) {
  let known: string | undefined;
  let generation = 0;
  let readAt = Number.NEGATIVE_INFINITY;
  let loading: Promise<void> | undefined;
  const load = async () => {
    const secret = await secrets.read(name);
    // An editor ends a file with a line break that is no part of the password.
    const password = secret?.value.replace(/\r?\n$/, '');
    if (password !== known) generation += 1;
    known = password;
    readAt = monotonicMs();
  };
  // The password that was read stays in use while the secrets manager is unavailable.
  const refresh = () => {
    loading ??= load()
      .catch((error: unknown) => (known === undefined ? unavailable(error) : undefined))
      .finally(() => {
        loading = undefined;
      });
    return loading;
  };
  const folder = name.slice(0, Math.max(0, name.lastIndexOf('/')));
  const unwatch = secrets.watch(folder, () => {
    readAt = Number.NEGATIVE_INFINITY;
  });
  return {
    /** Throws `PartnerFailure` where there is none, and `Problem` where it was never read and can't be. */
    read: async (): Promise<string> => {
      if (monotonicMs() - readAt > refreshSeconds * 1000) await refresh();
      if (known === undefined) {
        throw new PartnerFailure('credentials', `the secret ${name} with the partner's password is missing`);
      }
      return known;
    },
    /** Reads it again after the partner has refused this one; whether there is another one now. */
    isReplaced: async (refused: string): Promise<boolean> => {
      await refresh();
      return known !== undefined && known !== refused;
    },
    get generation() {
      return generation;
    },
    stop: unwatch,
  };
}

export type Password = ReturnType<typeof createPassword>;

function unavailable(cause: unknown): never {
  throw new Problem('secrets_unavailable', "The dining partner's password can't be read now.", {
    retryAfter: 5,
    cause,
  });
}
