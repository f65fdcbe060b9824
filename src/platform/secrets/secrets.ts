import { readFileSync } from 'node:fs';
import type { Log } from '../observability/log.ts';
import type { Settings } from '../settings/table.ts';
import type { SecretsManager } from './secrets-manager.ts';
import type { VaultOptions } from './vault.ts';

export async function openSecretsManager(
  settings: Pick<Settings, 'secretsManager' | 'secretsDir' | 'vault' | 'aws'>,
  log: Log,
): Promise<SecretsManager> {
  const { secretsManager, secretsDir, vault, aws } = settings;
  if (secretsManager === 'file')
    return (await import('./file.ts')).createFileSecretsManager({ dir: secretsDir });
  if (secretsManager === 'aws') return (await import('./aws.ts')).createAwsSecretsManager(aws);
  return (await import('./vault.ts')).createVaultSecretsManager({ ...vaultOptions(vault), log });
}

export function vaultOptions(vault: Settings['vault']): VaultOptions {
  const { address, mount, prefix, namespace, token, kubernetesRole, caFile } = vault;
  return {
    address: address as string,
    mount,
    prefix,
    namespace,
    ca: caFile === undefined ? undefined : readFileSync(caFile, 'utf8'),
    signIn:
      token !== undefined
        ? { method: 'token', token }
        : {
            method: 'kubernetes',
            role: kubernetesRole as string,
            tokenFile: vault.kubernetesTokenFile,
            mount: vault.kubernetesMount,
          },
  };
}
