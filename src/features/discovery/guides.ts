import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Marked, Renderer, type Tokens } from 'marked';
import { escapeMarkup } from '../../platform/base/text.ts';

export interface Guide {
  name: string;
  title: string;
  text: string;
}

export const guidesPath = '/v1/guides';

const folder = new URL('../../../docs/partners/', import.meta.url);
const placeholder = 'https://handoff.example.com';

/** The pages in the order in which the first of them names them. Throws what reading a file throws. */
export async function readGuides(): Promise<readonly Guide[]> {
  const first = await readFile(new URL('README.md', folder), 'utf8');
  const files = [...first.matchAll(/\]\(((?:\.\.\/)?[\w-]+\.md)\)/g)].map(([, file]) => file as string);
  const others = [...new Set(files)].map(async (file) => ({
    file,
    text: await readFile(new URL(file, folder), 'utf8'),
  }));
  return [{ file: '', text: first }, ...(await Promise.all(others))].map(({ file, text }) => ({
    name: file.replace(/^(\.\.\/)?/, '').replace(/\.md$/, ''),
    title: /^# (.+)$/m.exec(text)?.[1] ?? '',
    text,
  }));
}

export function guideMarkdown(guide: Guide, publicUrl: string): string {
  return withOwnAddress(guide, publicUrl).replaceAll(
    /\]\(([^()\s]+\.md[^()\s]*)\)/g,
    (_, target: string) => `](${linkTo(target)})`,
  );
}

function withOwnAddress({ text }: Guide, publicUrl: string): string {
  return text.replaceAll(placeholder, publicUrl);
}

const style =
  ':root{color-scheme:light dark}body{font:1rem/1.55 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}' +
  'nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0}nav [aria-current]{font-weight:bold;text-decoration:none}' +
  'main{max-width:50rem}h2{margin-top:2.5rem}code{font-size:.9em}pre,.table{overflow:auto}pre{padding:1rem;border:1px solid;border-radius:.3rem}' +
  'table{border-collapse:collapse}th,td{border:1px solid #8888;padding:.3rem .6rem;text-align:left;vertical-align:top}' +
  'blockquote{margin:1rem 0;padding:0 1rem;border-left:.3rem solid}li:has(>.check){list-style:none}';
const styleHash = createHash('sha256').update(style).digest('base64');

export const guidePolicy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

export function guideHtml(guide: Guide, all: readonly Guide[], publicUrl: string): string {
  const links = all.map(
    (one) =>
      `<li><a href="${pathOf(one.name)}"${one === guide ? ' aria-current="page"' : ''}>${escapeMarkup(one.title)}</a></li>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeMarkup(guide.title)} · Handoff Gateway</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<nav aria-label="Guides"><ul>
${links.join('\n')}
<li><a href="/v1/docs">API reference</a></li>
</ul></nav>
<main>
${renderMarkdown(withOwnAddress(guide, publicUrl))}
</main>
</body>
</html>
`;
}

function pathOf(name: string): string {
  return name === '' ? guidesPath : `${guidesPath}/${name}`;
}

function linkTo(target: string): string {
  const [, name, anchor = ''] = /^(?:\.\.\/|partners\/)*([\w-]+)\.md(#.*)?$/.exec(target) ?? [];
  if (name === undefined) return target;
  return pathOf(name === 'README' ? '' : name) + anchor;
}

const marked = new Marked({ gfm: true });

/** The Markdown of the guides as HTML. HTML and images in it are text. */
export function renderMarkdown(text: string): string {
  return marked.parse(text, { async: false, renderer: new GuideRenderer() });
}

class GuideRenderer extends Renderer {
  override heading({ tokens, depth, text }: Tokens.Heading): string {
    return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
  }

  override link({ href, tokens }: Tokens.Link): string {
    const text = this.parser.parseInline(tokens);
    const target = linkTo(href);
    return /^(https:\/\/|\/|#)/.test(target) ? `<a href="${escapeMarkup(target)}">${text}</a>` : text;
  }

  override codespan(token: Tokens.Codespan): string {
    const html = super.codespan(token);
    return /^\/v1\/(docs|problems\/[a-z_]+)$/.test(token.text) ? `<a href="${token.text}">${html}</a>` : html;
  }

  override table(token: Tokens.Table): string {
    return `<div class="table">${super.table(token)}</div>\n`;
  }

  override checkbox(): string {
    return '<span class="check">☐</span> ';
  }

  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return escapeMarkup(text);
  }

  override image({ text }: Tokens.Image): string {
    return escapeMarkup(text);
  }
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}
