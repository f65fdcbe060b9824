import { runWithNode24 } from './run-with-node-24.js';

await runWithNode24('src/cli/main.ts');
