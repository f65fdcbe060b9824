import { createFileSecretsManager } from '../../../src/platform/secrets/file.ts';
import { addLines } from '../../conformance/secrets-manager.ts';

const [dir = '', name = '', count = ''] = process.argv.slice(2);
await addLines(createFileSecretsManager({ dir }), name, Number(count));
