import { Command } from 'commander';
import { registerConsumerCommands } from '../../../src/features/consumer-admin/cli/consumer.ts';
import { createConsumers } from '../../../src/identity/consumers/consumers.ts';
import { configureExitCodes } from '../../../src/platform/command-line/command.ts';
import { createLog } from '../../../src/platform/observability/log.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import { listOf, resourcesOf } from '../../../src/records/mapping.ts';
import { fieldNamesOf } from '../../../src/records/shown-fields.ts';

const fieldNames = fieldNamesOf(() => listOf(resourcesOf()));

/** The consumer commands on the secrets folder of the first argument. */
export async function runCommandLine([dir = '', ...args]: readonly string[]): Promise<void> {
  const program = new Command('handoff');
  configureExitCodes(program);
  registerConsumerCommands(program, async (opened) => {
    const secrets = createFileSecretsManager({ dir });
    opened.defer(() => secrets.close());
    const log = createLog('silent');
    return createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600, fieldNames });
  });
  await program.parseAsync(args, { from: 'user' });
}
