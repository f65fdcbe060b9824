import { type DoctorCheck, secretsOf } from '../../feature.ts';
import { parseWebhookSecrets, webhookSecretName } from './secrets.ts';

/** Several are valid at once while senders change from one to the next. */
export const secretsCheck: DoctorCheck = {
  name: 'webhook secrets',
  needs: ['secrets manager'],
  async run(context) {
    const found = await secretsOf(context).read(webhookSecretName);
    const { secrets, faults } = parseWebhookSecrets(found?.value ?? '');
    if (faults.length > 0) {
      throw new Error([`${webhookSecretName} has lines that are left out:`, ...faults].join('\n'));
    }
    if (secrets.length > 1)
      return `${secrets.length} valid at once; take the old one out when no sender uses it`;
    if (secrets.length === 1) return `one, in ${webhookSecretName}`;
    const hint = `put "whsec_" and 32 random bytes in base64 into ${webhookSecretName}`;
    return `none yet, so every webhook is refused: ${hint}`;
  },
};
