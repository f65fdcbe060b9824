import { Type } from 'typebox';
import { defineRoute, json, type Route } from '../../../api/route.ts';
import { answerWith, createStaticBody, type StaticBody } from '../../../api/static-body.ts';
import { Problem } from '../../../platform/base/problem.ts';
import type { ConsoleFile, ConsoleFiles } from '../console-files.ts';

/** What the console's page asks before anybody signs in. */
export interface ConsoleFacts {
  environment: string;
  version: string;
  /** Address of a record in the CRM, with `{id}`; null while it is not known. */
  record_url: string | null;
}

export interface ConsoleServices {
  /** Read when a browser first asks for them. */
  files: () => Promise<ConsoleFiles>;
  facts: () => Promise<ConsoleFacts>;
}

export const consolePath = '/console/';
const shared = {
  method: 'GET',
  tag: 'Operations',
  permission: { none: 'the console signs in to the API, like any consumer' },
  isForBrowsers: true,
  idempotencyKey: 'ignored',
  problems: [],
} as const;
const answers = { 200: { description: 'The file.' } };

/** The console: its page, the files of the page, and what it has to know. Not part of the API. */
export function consoleRoutes({ files, facts }: ConsoleServices): Route[] {
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
        return answerWith(body, headers, { ...pageHeaders, 'content-security-policy': policy });
      },
    }),
    defineRoute({
      ...shared,
      path: `${consolePath}settings`,
      operationId: 'getConsoleSettings',
      summary: 'What the console has to know',
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
  'cross-origin-opener-policy': 'same-origin',
};

/** The hash in the address is that of all files: a page of another version must not be made of files of this one. */
function fileRoute(files: () => Promise<ConsoleFiles>): Route {
  const bodies = new Map<string, Promise<StaticBody>>();
  return defineRoute({
    ...shared,
    path: `${consolePath}files/:version/*`,
    operationId: 'getConsoleFile',
    summary: 'A file of the console',
    request: {
      params: Type.Object({
        version: Type.String({ maxLength: 64, format: 'text' }),
        '*': Type.String({ maxLength: 100, format: 'text' }),
      }),
    },
    answers,
    async handle({ params: { version, '*': name }, headers }) {
      const found = await files();
      const file = version === found.version ? found.files.get(name) : undefined;
      if (file === undefined)
        throw new Problem('not_found', 'The console has no such file. Load its page again.');
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
    made ??= make();
    return made;
  };
}
