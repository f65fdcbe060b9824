import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { answerWith, createStaticBody, type StaticBody } from '../../../api/static-body.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { type ConsoleFile, type ConsoleFiles, consolePath, type PageFacts } from '../console-files.ts';

export interface ConsoleFacts extends Omit<PageFacts, 'result_origins' | 'can_break'> {
  /** Address of a record in the CRM, with `{id}`; null while it is not known. */
  record_url: string | null;
}

export interface ConsoleServices {
  files: () => Promise<ConsoleFiles>;
  facts: () => Promise<ConsoleFacts>;
  resultOrigins: readonly string[];
}

const shared = {
  method: 'GET',
  tag: 'Operations',
  permission: { none: 'the console signs in to the API, like any consumer' },
  isUnlisted: true,
  idempotencyKey: 'ignored',
  problems: [],
} as const;
const answers = { 200: { description: 'The file.' } };

export function consoleRoutes({ files: read, facts, resultOrigins }: ConsoleServices): Route[] {
  const files = once(read);
  const page = once(async () => {
    const found = await files();
    return { body: await bodyOf(found.page), policy: found.page.contentSecurityPolicy };
  });
  return [
    defineRoute({
      ...shared,
      path: '/console',
      operationId: 'redirectToConsole',
      summary: 'The console',
      request: {},
      answers,
      handle: async () => ({ status: 308, headers: { location: consolePath } }),
    }),
    defineRoute({
      ...shared,
      path: consolePath,
      operationId: 'getConsole',
      summary: 'The console',
      request: {},
      answers,
      async handle({ headers }) {
        const { body, policy } = await page();
        return answerWith(body, headers, {
          ...pageHeaders,
          ...openerHeaders(headers.referer, resultOrigins),
          'content-security-policy': policy,
        });
      },
    }),
    defineRoute({
      ...shared,
      path: `${consolePath}settings`,
      operationId: 'getConsoleSettings',
      summary: 'What the console needs to know',
      request: {},
      answers,
      handle: async () => json(200, await facts()),
    }),
    fileRoute(files),
  ];
}

const pageHeaders = {
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
};

/**
 * The page that opens the console may keep a hold of its window only where it is to pass results: it could lead that window
 * elsewhere later, where somebody might type in their credentials. Every other opener is cut off. The browser says in
 * Referer which page it is, and no page can say that it is another.
 */
function openerHeaders(referer: string | undefined, resultOrigins: readonly string[]) {
  const origin = URL.parse(referer ?? '')?.origin;
  const isAllowed = origin !== undefined && resultOrigins.includes(origin);
  return { vary: 'Referer', 'cross-origin-opener-policy': isAllowed ? 'unsafe-none' : 'same-origin' };
}

function fileRoute(files: () => Promise<ConsoleFiles>): Route {
  const bodies = new Map<string, Promise<StaticBody>>();
  return defineRoute({
    ...shared,
    path: `${consolePath}files/:name`,
    operationId: 'getConsoleFile',
    summary: 'A file of the console',
    request: { params: Type.Object({ name: Type.String({ maxLength: 100, format: 'text' }) }) },
    answers,
    async handle({ params: { name }, headers }) {
      const file = (await files()).files.get(name);
      if (file === undefined)
        throw new Problem('not_found', 'The console has no such file. Reload its page.');
      const body = bodies.get(name) ?? bodyOf(file);
      bodies.set(name, body);
      return answerWith(await body, headers, { 'cache-control': 'public, max-age=31536000, immutable' });
    },
  });
}

function bodyOf({ contentType, text }: ConsoleFile): Promise<StaticBody> {
  return createStaticBody(contentType, Buffer.from(text));
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
