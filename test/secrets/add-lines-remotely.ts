import { createAwsSecretsManager } from '../../src/secrets/aws.ts';
import { readAwsEnvironment } from '../../src/secrets/aws-environment.ts';
import type { SecretsManager } from '../../src/secrets/secrets-manager.ts';
import { createVaultSecretsManager } from '../../src/secrets/vault.ts';
import { readVaultEnvironment } from '../../src/secrets/vault-environment.ts';
import { addLines } from '../conformance/secrets-manager.ts';
import { recordLog } from '../support/log.ts';

const [kind = '', name = '', count = ''] = process.argv.slice(2);
const manager = kind === 'vault' ? connectToVault() : connectToAws();
await addLines(manager, name, Number(count));
await manager.close();

function connectToVault(): SecretsManager {
  const options = readVaultEnvironment(process.env);
  if ('faults' in options) throw new Error(options.faults.join());
  return createVaultSecretsManager({ ...options, log: recordLog().log });
}

function connectToAws(): SecretsManager {
  const options = readAwsEnvironment(process.env);
  if ('faults' in options) throw new Error(options.faults.join());
  return createAwsSecretsManager(options);
}
