import type { Log } from '../observability/log.ts';
import type { SecretsManager } from './secrets-manager.ts';

export interface SecretsManagerChoice {
  kind: SecretsManager['kind'];
  /** Folder of the file secrets manager. */
  dir: string;
  /** Where the others find their own variables. */
  env: NodeJS.ProcessEnv;
  log: Log;
}

/** Opens the chosen secrets manager; only its adapter is loaded. Throws an error that names every wrong variable. */
export async function openSecretsManager({
  kind,
  dir,
  env,
  log,
}: SecretsManagerChoice): Promise<SecretsManager> {
  if (kind === 'file') return (await import('./file.ts')).createFileSecretsManager({ dir });
  if (kind === 'vault') {
    const { readVaultEnvironment } = await import('./vault-environment.ts');
    const options = withoutFaults(readVaultEnvironment(env));
    return (await import('./vault.ts')).createVaultSecretsManager({ ...options, log });
  }
  const { readAwsEnvironment } = await import('./aws-environment.ts');
  return (await import('./aws.ts')).createAwsSecretsManager(withoutFaults(readAwsEnvironment(env)));
}

function withoutFaults<T extends object>(options: T | { faults: string[] }): T {
  if (!('faults' in options)) return options;
  throw new Error(`The settings are not valid:\n${options.faults.map((fault) => `  - ${fault}`).join('\n')}`);
}
