import { runCommandLine } from './cli.ts';

await runCommandLine(process.argv.slice(2));
