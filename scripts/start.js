import { installIfMissing } from './install-if-missing.js';
import { runWithNode24 } from './run-with-node-24.js';

await runWithNode24('src/main.ts', () => installIfMissing({ production: true }));
