export type LinkTo = (target: string) => string;

interface Reader {
  lines: readonly string[];
  at: number;
  linkTo: LinkTo;
}

/**
 * The Markdown of the guides as HTML: headings, paragraphs, flat lists, tables, quotes, fenced code; within a line code, bold,
 * italics and links. All else is text.
 */
export function renderMarkdown(text: string, linkTo: LinkTo): string {
  const reader: Reader = { lines: text.split('\n'), at: 0, linkTo };
  const parts: string[] = [];
  while (reader.at < reader.lines.length) {
    const line = reader.lines[reader.at] as string;
    const render = blocks.find(([begins]) => begins.test(line))?.[1] ?? renderParagraph;
    parts.push(render(reader));
  }
  return parts.filter((part) => part !== '').join('\n');
}

const item = /^(?:- |\d+\. )/;

const blocks: readonly (readonly [RegExp, (reader: Reader) => string])[] = [
  [/^\s*$/, skip],
  [/^```/, renderCode],
  [/^#{1,4} /, renderHeading],
  [/^\|/, renderTable],
  [/^> /, renderQuote],
  [item, renderList],
];

function skip(reader: Reader): string {
  reader.at += 1;
  return '';
}

function take(reader: Reader, wanted: (line: string, index: number) => boolean): string[] {
  const rest = reader.lines.slice(reader.at);
  const end = rest.findIndex((line, index) => !wanted(line, index));
  const taken = end < 0 ? rest : rest.slice(0, end);
  reader.at += taken.length;
  return taken;
}

function renderCode(reader: Reader): string {
  const [, ...code] = take(reader, (line, index) => index === 0 || !line.startsWith('```'));
  reader.at += 1;
  return `<pre><code>${escapeHtml(code.join('\n'))}\n</code></pre>`;
}

function renderHeading(reader: Reader): string {
  const [line = ''] = take(reader, (_, index) => index === 0);
  const title = line.replace(/^#+ /, '');
  const level = line.length - title.length - 1;
  return `<h${level} id="${anchorOf(title)}">${inline(title, reader.linkTo)}</h${level}>`;
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

function renderTable(reader: Reader): string {
  const [header = [], , ...rows] = take(reader, (line) => line.startsWith('|')).map((line) =>
    line
      .trim()
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => inline(cell.trim().replaceAll('\\|', '|'), reader.linkTo)),
  );
  const row = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`;
  const body = rows.map((cells) => row(cells, 'td')).join('\n');
  const head = header.every((cell) => cell === '') ? '' : `<thead>${row(header, 'th')}</thead>\n`;
  return `<div class="table"><table>${head}<tbody>${body}</tbody></table></div>`;
}

function renderQuote(reader: Reader): string {
  const lines = take(reader, (line) => line.startsWith('>')).map((line) => line.slice(2));
  return `<blockquote>${renderMarkdown(lines.join('\n'), reader.linkTo)}</blockquote>`;
}

function renderList(reader: Reader): string {
  const tag = (reader.lines[reader.at] as string).startsWith('- ') ? 'ul' : 'ol';
  const lines = take(reader, (line) => item.test(line) || line.startsWith('  '));
  const items = lines.join('\n').split(/\n(?=- |\d+\. )/);
  const shown = items.map((text) => {
    const content = inline(text.replace(item, '').replace(/^\[ \] /, ''), reader.linkTo);
    return text.startsWith('- [ ] ') ? `<li class="check">${content}</li>` : `<li>${content}</li>`;
  });
  return `<${tag}>${shown.join('\n')}</${tag}>`;
}

function renderParagraph(reader: Reader): string {
  const begins = (line: string) => blocks.some(([beginning]) => beginning.test(line));
  const lines = take(reader, (line, index) => index === 0 || !begins(line));
  return `<p>${inline(lines.join('\n'), reader.linkTo)}</p>`;
}

const spans = /`([^`]+)`|\[((?:`[^`]*`|[^\]`])+)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*|\*([^\s*][^*]*)\*/g;

function inline(text: string, linkTo: LinkTo): string {
  let html = '';
  let end = 0;
  for (const found of text.matchAll(spans)) {
    html += escapeHtml(text.slice(end, found.index)) + span(found, linkTo);
    end = found.index + found[0].length;
  }
  return html + escapeHtml(text.slice(end));
}

function span([, code, label, target, bold, italic]: RegExpExecArray, linkTo: LinkTo): string {
  if (code !== undefined) return codeSpan(code);
  if (label !== undefined)
    return `<a href="${escapeHtml(linkTo(target as string))}">${inline(label, linkTo)}</a>`;
  return bold === undefined
    ? `<em>${escapeHtml(italic as string)}</em>`
    : `<strong>${inline(bold, linkTo)}</strong>`;
}

function codeSpan(code: string): string {
  const html = `<code>${escapeHtml(code)}</code>`;
  return /^\/v1\/(docs|problems\/[a-z_]+)$/.test(code) ? `<a href="${code}">${html}</a>` : html;
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
