import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../', import.meta.url);

/**
 * The Node that runs TypeScript as it is: the one that runs this, if it is recent enough, else the one that the
 * dependency `node` brings. Throws an error that says what to do where there is none.
 */
export function findNode() {
  const wanted = minimum();
  if (isAtLeast(process.versions.node, wanted)) return process.execPath;
  const binary = fileURLToPath(new URL('node_modules/node/bin/node', root));
  if (existsSync(binary)) return realpathSync(binary);
  // npm's --ignore-scripts leaves the package without its binary, and the older Node would go on unnoticed.
  throw new Error(
    `This is Node.js ${process.versions.node}, and Handoff Gateway needs ${wanted} or newer. The package "node" brings it, ` +
      "but its install script didn't run.\n" +
      'Run it with: npm rebuild node --ignore-scripts=false\n' +
      `Or install Node.js ${wanted} or newer yourself.`,
  );
}

function minimum() {
  const text = readFileSync(new URL('package.json', root), 'utf8');
  const { engines } = /** @type {{ engines: { node: string } }} */ (JSON.parse(text));
  return engines.node.replace('>=', '');
}

/**
 * @param {string} version
 * @param {string} wanted
 */
function isAtLeast(version, wanted) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = wanted.split('.').map(Number);
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}
