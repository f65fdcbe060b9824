import { createConsumers } from '../../../src/identity/consumers/consumers.ts';
import { makeFirstConsumers } from '../../../src/identity/consumers/first-start.ts';
import { createLog } from '../../../src/platform/observability/log.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';

/** `SECRETS_DIR DATA_DIR [N]`: a first start, killed before it saves consumer 1 or 2, or (3) after the second. */
const [secretsDir = '', dataDir = '', dieAt = '0'] = process.argv.slice(2);
const secrets = createFileSecretsManager({ dir: secretsDir });
const log = createLog('silent');
const { keys, store } = createConsumers({ secrets, log, metrics: createMetrics(), refreshSeconds: 3600 });
let saves = 0;
const dying: typeof store = {
  ...store,
  save: async (consumer, version) => {
    if (++saves === Number(dieAt)) process.kill(process.pid, 'SIGKILL');
    const saved = await store.save(consumer, version);
    if (saves === 2 && dieAt === '3') process.kill(process.pid, 'SIGKILL');
    return saved;
  },
};
await makeFirstConsumers({ secrets, consumers: { keys, store: dying }, secretsDir, dataDir });
