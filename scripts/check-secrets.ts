import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/*
 * Looks for secrets in every text file of the tree that git does not ignore, and fails where there is one. The nightly run does
 * the same with secretlint, which knows the tokens of more services.
 */

const root = join(import.meta.dirname, '..');

const rules: readonly { what: string; pattern: RegExp }[] = [
  {
    what: 'an API key or secret of the gateway',
    pattern: /\b(?:hgkt?_[0-9A-Za-z]{16}_[0-9A-Za-z]{22}|hgst?_[0-9A-Za-z]{49})(?![0-9A-Za-z])/g,
  },
  {
    what: 'a private key in PEM',
    pattern: /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\\[rn]|\s)*[A-Za-z0-9+/=]{32}/g,
  },
  {
    // The one of the documentation is no secret.
    what: 'a password in a URL',
    pattern:
      /\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|rediss?|amqps?):\/\/[^\s:/@$<{]+:(?!(?:hunter2|password)@)[^\s:/@$<{]{6,}@/g,
  },
  {
    what: 'a token of AWS, GitHub, npm, Slack, Google or OpenAI',
    pattern:
      /\b(?:A(?:KI|SI)A[0-9A-Z]{16}(?![0-9A-Z])|gh[opsur]_[0-9A-Za-z]{36}|github_pat_\w{22,}|npm_[0-9A-Za-z]{36}|xox[abeprs]-[0-9A-Za-z-]{20,}|AIza[0-9A-Za-z_-]{35}|sk-[0-9A-Za-z_-]{40,})|SECRET_?(?:ACCESS_?)?KEY["']?\s*[:=]\s*["']?[0-9A-Za-z/+]{40}(?![0-9A-Za-z/+=])/gi,
  },
];

const ignored = readFileSync(join(root, '.gitignore'), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => (line.startsWith('/') ? line.slice(1) : `**/${line}`).replace(/\/$/, ''));
const files = globSync(['**/*', '**/.*', '**/.*/**'], {
  cwd: root,
  exclude: ['**/.git', ...ignored, ...ignored.map((path) => `${path}/**`)],
  withFileTypes: true,
}).filter((entry) => entry.isFile());

for (const { parentPath, name } of files) {
  const path = join(parentPath, name);
  const text = readFileSync(path, 'utf8');
  if (text.includes('\0')) continue;
  for (const { what, pattern } of rules)
    for (const { index } of text.matchAll(pattern)) {
      const line = text.slice(0, index).split('\n').length;
      console.error(`${path.slice(root.length + 1)}:${line}: ${what}. Take it out, and make a new one.`);
      process.exitCode = 1;
    }
}
