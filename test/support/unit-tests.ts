import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findUnitTests } from '../../scripts/unit-tests.ts';

/* All tests that start nothing, in one process: each file of its own would take longer to load than to run. */

const root = join(import.meta.dirname, '../..');
enableCompileCache(join(root, 'node_modules/.cache/compile-tests'));
for (const file of findUnitTests()) await import(pathToFileURL(join(root, file)).href);
