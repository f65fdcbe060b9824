import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createStaticBody, type StaticBody } from '../static-body.ts';

/** The readable form of the OpenAPI document, and the script that draws it. */
export interface ReadablePage {
  html: StaticBody;
  script: StaticBody;
}

/** The message of `render-page.ts`. */
interface RenderedFiles {
  html: Buffer;
  script: Buffer;
}

/**
 * Scalar's API reference, with all of its assets served from here. A process of its own makes it when a
 * browser first asks for it: that takes a second and 60 MB, which this process would never give back.
 */
export function createReadablePage(documentPath: string): () => Promise<ReadablePage> {
  let made: Promise<ReadablePage> | undefined;
  return () => {
    made ??= make(documentPath).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

async function make(documentPath: string): Promise<ReadablePage> {
  const program = fileURLToPath(new URL('./render-page.ts', import.meta.url));
  const renderer = fork(program, [documentPath], {
    // It needs no settings, which may hold secrets.
    env: {},
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const ended = once(renderer, 'exit').then(([code]) => {
    throw new Error(`The page of the documentation could not be made: its process ended with ${code}.`);
  });
  ended.catch(() => {});
  const [files] = (await Promise.race([once(renderer, 'message'), ended])) as [RenderedFiles];
  return {
    html: await createStaticBody('text/html; charset=utf-8', files.html),
    script: await createStaticBody('text/javascript; charset=utf-8', files.script),
  };
}
