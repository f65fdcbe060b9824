import { Marked, Renderer, type Tokens } from 'marked';

export type LinkTo = (target: string) => string;

const marked = new Marked({ gfm: true });

/** The Markdown of the guides as HTML. HTML and images in it are text. */
export function renderMarkdown(text: string, linkTo: LinkTo): string {
  return marked.parse(text, { async: false, renderer: new GuideRenderer(linkTo) });
}

class GuideRenderer extends Renderer {
  readonly #linkTo: LinkTo;

  constructor(linkTo: LinkTo) {
    super();
    this.#linkTo = linkTo;
  }

  override heading({ tokens, depth, text }: Tokens.Heading): string {
    return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
  }

  override link({ href, tokens }: Tokens.Link): string {
    const text = this.parser.parseInline(tokens);
    const target = this.#linkTo(href);
    return /^(https:\/\/|\/|#)/.test(target) ? `<a href="${escapeHtml(target)}">${text}</a>` : text;
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
    return escapeHtml(text);
  }

  override image({ text }: Tokens.Image): string {
    return escapeHtml(text);
  }
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
