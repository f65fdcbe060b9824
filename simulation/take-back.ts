import { registerHooks } from 'node:module';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Undone, undone } from './undone.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Loads a module without one of its fixes. To be called before the service is imported. */
export function takeBack(name: string): void {
  const fix = undone[name];
  if (fix === undefined)
    throw new Error(`${name} is no fix of simulation/undone.ts: ${Object.keys(undone).join(', ')}`);
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.startsWith('file:') || relative(root, fileURLToPath(url)) !== fix.file) return loaded;
      return { ...loaded, source: without(textOf(loaded.source), fix) };
    },
  });
}

/** The text of a module without a fix. Throws where the fix does not stand in it once. */
function without(text: string, { file, now, before }: Undone): string {
  if (text.split(now).length !== 2) throw new Error(`${file} has not once: ${now}`);
  return text.replace(now, () => before);
}

function textOf(source: unknown): string {
  return typeof source === 'string' ? source : Buffer.from(source as Uint8Array).toString('utf8');
}
