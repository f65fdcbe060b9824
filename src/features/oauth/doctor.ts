import { type DoctorCheck, NothingToCheck, secretsOf, settingsOf } from '../../feature.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { issuesTokens } from './issuer.ts';
import { readSigningKeys, signingAt, signingKeysName } from './signing-keys.ts';

/** The keys that sign tokens. Makes none: that is left to the service. */
export const signingKeysCheck: DoctorCheck = {
  name: 'token keys',
  needs: ['secrets manager'],
  async run(context) {
    const settings = settingsOf(context);
    if (!issuesTokens(settings)) throw new NothingToCheck('publicUrl is not set: no token is issued');
    const name = signingKeysName(settings.environment);
    const found = await secretsOf(context).read(name);
    if (found === undefined) return `none yet: the service makes the first one, in ${name}`;
    const keys = read(name, found.value);
    return `${keys.length === 1 ? 'one' : keys.length} in ${name}; ${signingAt(keys, wallMs())?.kid} signs`;
  },
};

function read(name: string, value: string) {
  try {
    return readSigningKeys(value);
  } catch (cause) {
    throw new Error(`${name} cannot be used. ${(cause as Error).message}`, { cause });
  }
}
