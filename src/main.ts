import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// Before anything else is loaded: from the second start on, the sources need not be compiled again.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/compile', import.meta.url)));
const { runCommandLine } = await import('./cli/cli.ts');

await runCommandLine(['serve', ...process.argv.slice(2)]);
