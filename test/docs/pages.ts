import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

export const root = join(import.meta.dirname, '../..');

const skipped = new Set(['node_modules', 'coverage', 'test']);

/** Paths of all Markdown files of the project; folders with a leading dot are not part of it. */
export function markdownFiles(): string[] {
  const visit = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory())
        return skipped.has(entry.name) || entry.name.startsWith('.') ? [] : visit(path);
      return entry.name.endsWith('.md') ? [relative(root, path)] : [];
    });
  return visit(root);
}

export function readPage(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

interface Block {
  language: string;
  text: string;
}

/** The fenced blocks of a page; the indentation of the fence is taken off. */
export function codeBlocks(page: string): Block[] {
  return [...page.matchAll(/^( *)```(\w*)\n([\s\S]*?)^\1```$/gm)].map(
    ([, indent = '', language = '', text = '']) => ({
      language,
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  );
}

/** The page without what only looks like Markdown: code. */
function prose(page: string): string {
  return page.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '').replaceAll(/`[^`\n]+`/g, '');
}

/** Targets of the links of a page. */
export function links(page: string): string[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
}

/** The names by which headings are linked to, as GitHub makes them. */
export function anchors(page: string): Set<string> {
  const headings = page.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '').matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
