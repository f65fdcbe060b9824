import { endWithLauncher, isLaunched, launch } from './launcher.js';
import { findNode } from './node-version.js';

/**
 * Runs a TypeScript program: in this process if its Node is recent enough,
 * else in a child on the Node that the dependency `node` brings, whose exit code becomes ours. What goes wrong before
 * the program starts is said in words, with exit code 1.
 *
 * @param {string} program path inside the project
 * @param {() => void | Promise<void>} prepare checks or installs packages first
 */
export async function runWithNode24(program, prepare) {
  try {
    if (!isLaunched()) await prepare();
    const node = findNode();
    if (node !== process.execPath) {
      process.exitCode = await launch(node);
      return;
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
    return;
  }
  if (isLaunched()) endWithLauncher();
  await import(new URL(`../${program}`, import.meta.url).href);
}
