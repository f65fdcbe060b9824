import { installIfMissing, isNothingInstalled, requireInstalled } from './install-if-missing.js';
import { runWithNode24 } from './run-with-node-24.js';

await runWithNode24('src/cli/main.ts', prepare);

/**
 * Only `serve` installs missing packages. Another command may run beside a service, and an installation would remove packages
 * that the service uses. If nothing is installed, no service runs, and commands other than `doctor` install too.
 */
function prepare() {
  const [, , ...words] = process.argv;
  const command = words.find((word, index) => !word.startsWith('-') && words[index - 1] !== '--config');
  const mayInstall = command === 'serve' || (isNothingInstalled() && command !== 'doctor');
  return mayInstall ? installIfMissing({ production: true }) : requireInstalled();
}
