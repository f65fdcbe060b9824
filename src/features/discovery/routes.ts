import { readFile } from 'node:fs/promises';
import { Type } from 'typebox';
import { remembered } from '../../api/openapi/readable-page.ts';
import { defineRoute, type Route } from '../../api/route.ts';
import {
  answerWith,
  createArchiveBody,
  createStaticBody,
  prefersHtml,
  type StaticBody,
} from '../../api/static-body.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { dayMs } from '../../platform/base/moment.ts';
import { Problem } from '../../platform/base/problem.ts';
import { version } from '../../platform/base/version.ts';
import { guideHtml, guideMarkdown, guidePolicy, guidesPath, readGuides } from './guides.ts';

const clientPackage = new URL(`../../../client/handoff-gateway-client-${version}.tgz`, import.meta.url);

let found: StaticBody | undefined;

/** The package of the client, read once; undefined where it was not made. */
async function readClientPackage(): Promise<StaticBody | undefined> {
  if (found) return found;
  const bytes = await readFile(clientPackage).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (bytes) found = createArchiveBody('application/gzip', bytes);
  return found;
}

export interface DiscoveryParts {
  publicUrl: () => string;
  /** Undefined: there is none to name. */
  securityContact: string | undefined;
}

const common = {
  method: 'GET',
  tag: 'Operations',
  isUnlisted: true,
  permission: { none: 'nothing here is secret' },
  idempotencyKey: 'ignored',
  request: {},
  problems: [],
} as const;

const clientPath = '/client.tgz';
const docsPath = '/v1/docs';
const catalogPath = '/.well-known/api-catalog';
const securityPath = '/.well-known/security.txt';
const linkset = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"';
/** A file that says when it ends must say so less than a year ahead (RFC 9116 section 2.5.5). */
const securityDays = 180;

export function discoveryRoutes(
  { publicUrl, securityContact }: DiscoveryParts,
  all: () => readonly Route[],
): Route[] {
  const hasTools = () => all().some(({ path }) => path === '/mcp');
  return [
    textRoute(
      '/llms.txt',
      'getLlmsText',
      'Read about the gateway, for language models',
      'text/markdown; charset=utf-8',
      () => llmsText(publicUrl(), all(), hasTools()),
    ),
    ...guideRoutes(publicUrl),
    clientRoute(),
    catalogRoute(() => catalogOf(publicUrl(), hasTools()), publicUrl),
    ...(securityContact === undefined
      ? []
      : [
          textRoute(
            securityPath,
            'getSecurityText',
            'Where to report vulnerabilities',
            'text/plain; charset=utf-8',
            () => securityText(securityContact, publicUrl()),
          ),
        ]),
  ];
}

function textRoute(
  path: string,
  operationId: string,
  summary: string,
  type: string,
  text: () => string,
): Route {
  return defineRoute({
    ...common,
    path,
    operationId,
    summary,
    answers: { 200: { description: 'The text.' } },
    handle: async () => ({ status: 200, headers: { 'content-type': type }, body: text() }),
  });
}

function clientRoute(): Route {
  return defineRoute({
    ...common,
    path: clientPath,
    operationId: 'getClientPackage',
    summary: "The client's npm package",
    conditional: 'If-None-Match',
    answers: {
      200: { description: 'The package, as `npm pack` makes it.' },
      304: { description: "It hasn't changed." },
    },
    problems: ['not_found'],
    async handle({ headers }) {
      const body = await readClientPackage();
      if (body === undefined)
        throw new Problem(
          'not_found',
          "This installation has no client package. To build it, run `npm run client` in the gateway's folder.",
        );
      return answerWith(body, headers, { 'cache-control': 'no-cache' });
    },
  });
}

/** RFC 9727. The header is for HEAD, which has no body. */
function catalogRoute(catalog: () => object, publicUrl: () => string): Route {
  return defineRoute({
    ...common,
    path: catalogPath,
    operationId: 'getApiCatalog',
    summary: 'Which APIs there are',
    answers: { 200: { description: 'A set of links (RFC 9264).' } },
    handle: async () => ({
      status: 200,
      headers: { 'content-type': linkset, link: `<${publicUrl()}${catalogPath}>; rel="api-catalog"` },
      body: JSON.stringify(catalog()),
    }),
  });
}

function catalogOf(url: string, hasTools: boolean): object {
  const described = {
    anchor: `${url}/v1/`,
    'service-desc': [{ href: url + docsPath, type: 'application/json' }],
    'service-doc': [docsPath, guidesPath].map((path) => ({ href: url + path, type: 'text/html' })),
    status: [{ href: `${url}/v1/healthz`, type: 'application/json' }],
  };
  const items = [`${url}/v1/`, `${url}/api/v1/handoff`, ...(hasTools ? [`${url}/mcp`] : [])];
  return {
    linkset: [described, { anchor: url + catalogPath, item: items.map((href) => ({ href })) }],
  };
}

/** As llmstxt.org proposes: a heading, what it is, and links with a note each. */
function llmsText(url: string, all: readonly Route[], hasTools: boolean): string {
  const tools = all.flatMap(({ tool, summary }) => (tool ? [`- \`${tool.name}\`: ${summary}`] : []));
  const offered = [
    `- [Guides](${url}${guidesPath}): how to call it, from the first key to production, with samples in curl, TypeScript, Python and Java`,
    `- [API reference](${url}${docsPath}): OpenAPI 3.1 as JSON; browsers get a page`,
    `- [Errors](${url}/v1/problems/invalid_request): each error is a problem document, and its \`type\` is a page like this one`,
    `- [Health](${url}/v1/healthz): whether the gateway and what it depends on work`,
    `- Client for JavaScript and TypeScript: \`npm install ${url}${clientPath}\``,
  ];
  return [
    '# Handoff Gateway',
    '> Writes chosen travel offers to a CRM as quotes and bookings, books tables, and serves members, quotes and bookings through ' +
      "a versioned API. Every request needs a consumer's credentials.",
    ['## API', ...offered].join('\n'),
    ...(hasTools
      ? [
          `## Tools\n\nThrough the Model Context Protocol at ${url}/mcp, with the same credentials. Each write happens once for each ` +
            "`intent`, however often it's called.",
          tools.join('\n'),
        ]
      : []),
    `## Optional\n- [API catalog](${url}${catalogPath}): the same links for programs`,
    '',
  ].join('\n\n');
}

function securityText(contact: string, url: string): string {
  const expires = new Date(wallMs() + securityDays * dayMs).toISOString();
  return [
    `Contact: ${contact}`,
    `Expires: ${expires}`,
    'Preferred-Languages: en',
    `Canonical: ${url}${securityPath}`,
    '',
  ].join('\n');
}

const sharedByGuides = {
  ...common,
  permission: { none: 'documentation is public' },
  conditional: 'If-None-Match',
  answers: {
    200: { description: 'Markdown; a browser, which accepts `text/html`, gets a page.' },
    304: { description: "It hasn't changed." },
  },
} as const;

function guideRoutes(publicUrl: () => string): Route[] {
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
      ...sharedByGuides,
      path: guidesPath,
      operationId: 'getGuides',
      summary: 'How to call this gateway',
      handle: ({ headers }) => answer('', headers),
    }),
    defineRoute({
      ...sharedByGuides,
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
