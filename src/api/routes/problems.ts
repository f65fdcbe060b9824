import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { Problem, type ProblemCode, problems } from '../../platform/base/problem.ts';
import { escapeMarkup } from '../../platform/base/text.ts';
import { exampleProblem, exampleRequestId, problemAnswer } from '../pipeline/answer.ts';
import { defineRoute, type Route } from '../route.ts';
import { prefersHtml } from '../static-body.ts';

const style =
  ':root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;' +
  'padding:0 1rem}pre{overflow:auto;padding:1rem;border:1px solid}';
const styleHash = createHash('sha256').update(style).digest('base64');
const contentSecurityPolicy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; frame-ancestors 'none'`;

export const problemRoute: Route = defineRoute({
  method: 'GET',
  path: '/v1/problems/:code',
  operationId: 'getProblem',
  tag: 'Operations',
  summary: 'Read what a problem means',
  description: 'Plain text; a browser, which accepts `text/html`, gets a page.',
  permission: { none: 'documentation is public' },
  idempotencyKey: 'ignored',
  request: {
    params: Type.Object(
      {
        code: Type.String({
          maxLength: 100,
          format: 'text',
          description: '`code` of a problem.',
          examples: ['not_found'],
        }),
      },
      { additionalProperties: false },
    ),
  },
  answers: {
    200: {
      description: 'Explains what happened, whether anything was done, and what to do.',
      headers: { Vary: 'Accept' },
      otherMedia: ['text/plain', 'text/html'],
    },
  },
  problems: [],
  async handle({ params, headers }) {
    const { code } = params;
    if (!isProblemCode(code)) throw new Problem('not_found', "There's no problem with this code.");
    const shared = { 'cache-control': 'no-cache', vary: 'Accept' };
    if (!prefersHtml(headers.accept))
      return {
        status: 200,
        body: asText(code),
        headers: { ...shared, 'content-type': 'text/plain; charset=utf-8' },
      };
    return {
      status: 200,
      body: asPage(code),
      headers: {
        ...shared,
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': contentSecurityPolicy,
      },
    };
  },
});

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(problems, code);
}

function exampleOf(code: ProblemCode): string {
  const { body } = problemAnswer(exampleProblem(code), exampleRequestId, true);
  return JSON.stringify(JSON.parse(body), null, 2);
}

function asText(code: ProblemCode): string {
  const { status, title, meaning, advice } = problems[code];
  const parts = [
    `${code} (${status}): ${title}`,
    `What happened\n  ${plain(meaning)}`,
    `What to do\n  ${plain(advice)}`,
    `Example\n${exampleOf(code).replaceAll(/^/gm, '  ')}`,
  ];
  return `${parts.join('\n\n')}\n`;
}

function asPage(code: ProblemCode): string {
  const { status, title, meaning, advice } = problems[code];
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>${code}</title><style>${style}</style></head><body><main><h1>${escapeMarkup(title)}</h1>` +
    `<p><code>${code}</code>, status ${status}</p>` +
    `<h2>What happened</h2><p>${escapeMarkup(plain(meaning))}</p>` +
    `<h2>What to do</h2><p>${escapeMarkup(plain(advice))}</p>` +
    `<h2>Example</h2><pre>${escapeMarkup(exampleOf(code))}</pre>` +
    `<p><a href="/v1/docs">The whole API</a></p></main></body></html>\n`
  );
}

function plain(text: string): string {
  return text.replaceAll('`', '');
}
