import { Socket } from 'node:net';
import { runChild } from './run-child.js';

/** Set for the process that a launcher on an older Node has started. */
const variable = 'HANDOFF_LAUNCHED';

/** Whether this process was started by `launch`. */
export function isLaunched() {
  return process.env[variable] !== undefined;
}

/**
 * Runs this very program again, on another Node. Answers with its exit code.
 *
 * @param {string} node
 */
export function launch(node) {
  if (isLaunched()) {
    throw new Error(`${node} is too old. Remove node_modules and start again.`);
  }
  return runChild(node, process.argv.slice(1), { env: { ...process.env, [variable]: '1' } });
}

/** Stops this process, as SIGTERM would, when its launcher is gone, even by SIGKILL. For a launched process. */
export function endWithLauncher() {
  // Processes that this one starts are none of the launcher's.
  delete process.env[variable];
  const pipe = new Socket({ fd: 3, readable: true, writable: false });
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'));
  pipe.on('error', () => undefined);
  pipe.resume();
  pipe.unref();
}
