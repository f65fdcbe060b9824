import { Command } from 'commander';
import { registerConsumerCommands } from '../../src/cli/consumer.ts';
import { createConsumers } from '../../src/consumers/create-consumers.ts';
import { createLog } from '../../src/observability/log.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { createFileSecretsManager } from '../../src/secrets/file.ts';

/** The consumer commands on the secrets folder of the first argument. */
const [, , dir = '', ...args] = process.argv;
const program = new Command('handoff');
registerConsumerCommands(program, async () => {
  const secrets = createFileSecretsManager({ dir });
  const log = createLog('silent');
  const consumers = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
  return { consumers, close: () => secrets.close() };
});
await program.parseAsync(args, { from: 'user' });
