import { loadSettings } from '../../../src/app/settings.ts';
import { openSecretsManager } from '../../../src/platform/secrets/secrets.ts';
import { addLines } from '../../conformance/secrets-manager.ts';
import { recordLog } from '../../support/log.ts';

const [kind = '', name = '', count = ''] = process.argv.slice(2);
const settings = loadSettings({ ...process.env, SECRETS_MANAGER: kind });
const manager = await openSecretsManager(settings, recordLog().log);
await addLines(manager, name, Number(count));
await manager.close();
