import { Type } from 'typebox';
import { remembered } from '../../../api/openapi/readable-page.ts';
import { defineRoute, type Route } from '../../../api/route.ts';
import { answerWith, createStaticBody, prefersHtml, type StaticBody } from '../../../api/static-body.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { guideHtml, guideMarkdown, guidePolicy, guidesPath, readGuides } from './guides.ts';

const shared = {
  method: 'GET',
  tag: 'Operations',
  isUnlisted: true,
  permission: { none: 'documentation is public' },
  conditional: 'If-None-Match',
  idempotencyKey: 'ignored',
  answers: {
    200: { description: 'Markdown; a browser, which accepts `text/html`, gets a page.' },
    304: { description: "It hasn't changed." },
  },
} as const;

export function guideRoutes(publicUrl: () => string): Route[] {
  const pages = remembered(() => serveGuides(publicUrl()), publicUrl);
  const answer = async (name: string, headers: Parameters<typeof answerWith>[1]) => {
    const page = (await pages()).get(name);
    if (page === undefined)
      throw new Problem('not_found', `There's no such guide. ${guidesPath} lists them all.`);
    const own = { 'cache-control': 'no-cache', vary: 'Accept' };
    return prefersHtml(headers.accept)
      ? answerWith(page.html, headers, { ...own, 'content-security-policy': guidePolicy })
      : answerWith(page.markdown, headers, own);
  };
  return [
    defineRoute({
      ...shared,
      path: guidesPath,
      operationId: 'getGuides',
      summary: 'How to call this gateway',
      request: {},
      problems: [],
      handle: ({ headers }) => answer('', headers),
    }),
    defineRoute({
      ...shared,
      path: `${guidesPath}/:page`,
      operationId: 'getGuide',
      summary: 'One page of the guides',
      request: {
        params: Type.Object(
          { page: Type.String({ maxLength: 100, format: 'text', examples: ['retries'] }) },
          { additionalProperties: false },
        ),
      },
      problems: ['not_found'],
      handle: ({ params, headers }) => answer(params.page, headers),
    }),
  ];
}

async function serveGuides(
  publicUrl: string,
): Promise<ReadonlyMap<string, { html: StaticBody; markdown: StaticBody }>> {
  const all = await readGuides();
  const entries = all.map(async (guide) => {
    const [html, markdown] = await Promise.all([
      createStaticBody('text/html; charset=utf-8', Buffer.from(guideHtml(guide, all, publicUrl))),
      createStaticBody('text/markdown; charset=utf-8', Buffer.from(guideMarkdown(guide, publicUrl))),
    ]);
    return [guide.name, { html, markdown }] as const;
  });
  return new Map(await Promise.all(entries));
}
