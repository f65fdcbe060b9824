import { runCommandLine } from './cli/run.ts';

await runCommandLine(['serve', ...process.argv.slice(2)]);
