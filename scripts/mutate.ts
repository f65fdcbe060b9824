import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Mutant } from './mutations.ts';

/* Preloaded: what it loads has the mutant of the environment. */

const { file, start, end, text } = JSON.parse(process.env['MUTANT'] ?? '') as Mutant;
const url = pathToFileURL(join(import.meta.dirname, '..', file)).href;

registerHooks({
  load(wanted, context, nextLoad) {
    const loaded = nextLoad(wanted, context);
    if (wanted !== url) return loaded;
    // A Buffer as a rule.
    const source = Buffer.from(loaded.source as Uint8Array).toString();
    return { ...loaded, source: source.slice(0, start) + text + source.slice(end) };
  },
});
