import { buildConsoleIfPossible } from './build-console.js';
import { installIfMissing } from './install-if-missing.js';
import { packClientIfChanged } from './pack-client.js';
import { runWithNode24 } from './run-with-node-24.js';

await runWithNode24('src/main.ts', async () => {
  await installIfMissing({ production: true });
  packClientIfChanged();
  await buildConsoleIfPossible();
});
