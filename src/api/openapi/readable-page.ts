import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createStaticBody } from '../static-body.ts';
import { type Operation, type Parameter, shellSample } from './code-samples.ts';
import type { JsonObject } from './schemas.ts';

interface Document extends JsonObject {
  paths: Record<string, Record<string, Operation>>;
  components: { parameters: Record<string, Parameter> };
}

function exampleKey(document: object): unknown {
  return (document as Document).components.parameters['Idempotency-Key']?.example;
}

/**
 * The OpenAPI document as the readable page shows it: with a command for each operation, and with everything that is not
 * required switched off where a request is made up from the examples.
 */
export function pageDocument(document: object): JsonObject {
  const { paths, components, ...rest } = document as Document;
  const parameters = mapValues(components.parameters, withoutExampleUnlessRequired);
  const show = (method: string, path: string, operation: Operation): JsonObject => ({
    ...operation,
    parameters: operation.parameters.map(withoutExampleUnlessRequired),
    'x-codeSamples':
      operation['x-codeSamples'] ?? shellSample(method, path, operation, components.parameters),
  });
  return {
    ...rest,
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, operations]) => [
        path,
        mapValues(operations, (operation, method) => show(method.toUpperCase(), path, operation)),
      ]),
    ),
    components: { ...components, parameters },
  };
}

function mapValues<T, R>(
  record: Record<string, T>,
  change: (value: T, name: string) => R,
): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}

function withoutExampleUnlessRequired({ example, ...parameter }: Parameter): object {
  if (example === undefined) return parameter;
  return parameter.required
    ? { ...parameter, example }
    : { ...parameter, examples: { example: { value: example, 'x-disabled': true } } };
}

const javaScript = 'text/javascript; charset=utf-8';
/** A part of Scalar would try whether it may make code out of text, which the policy forbids and reports. */
const withoutEval = Buffer.from('globalThis.__zod_globalConfig = { jitless: true };\n');

export function createReadablePage(path: string, document: () => string) {
  return {
    html: remembered(() => createStaticBody('text/html; charset=utf-8', Buffer.from(html(path)))),
    start: remembered(
      () => createStaticBody(javaScript, Buffer.from(startScript(JSON.parse(document()) as object))),
      document,
    ),
    scalar: remembered(async () =>
      createStaticBody(javaScript, Buffer.concat([withoutEval, await scalarScript()])),
    ),
  };
}

export type ReadablePage = ReturnType<typeof createReadablePage>;

export function remembered<T>(make: () => Promise<T>, source = () => ''): () => Promise<T> {
  let made: Promise<T> | undefined;
  let text = '';
  return () => {
    const now = source();
    if (now !== text) made = undefined;
    text = now;
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

function html(path: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Handoff Gateway API</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. Programs get the document as JSON from the same address.</noscript>
<script src="${path}/scalar.js"></script>
<script src="${path}/start.js"></script>
</body>
</html>
`;
}

const configuration = {
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'none',
  customCss: 'a[href*="scalar.com"], .ascii-art { display: none }',
  authentication: { preferredSecurityScheme: [['apiKey', 'apiSecret']] },
  // The document has its own command for each operation; those of Scalar would send one key again and again.
  hiddenClients: true,
};

function startScript(document: object): string {
  return `
// crypto.randomUUID exists on HTTPS and on localhost only.
const randomDigit = (digit) => (digit ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (digit / 4)))).toString(16);
const newKey = () => '10000000-1000-4000-8000-100000000000'.replaceAll(/[018]/g, randomDigit);

Scalar.createApiReference('#app', {
  ...${JSON.stringify(configuration)},
  content: ${JSON.stringify(pageDocument(document))},
  onBeforeRequest({ requestBuilder: { headers } }) {
    // Under the key of the example, a second request would be a repeat of the first.
    if (headers.get('idempotency-key') === ${JSON.stringify(exampleKey(document))})
      headers.set('idempotency-key', newKey());
  },
});
`;
}

/** A process of its own reads it: that takes a second and 60 MB, which this process would never give back. */
async function scalarScript(): Promise<Buffer> {
  const program = fileURLToPath(new URL('./render-page.ts', import.meta.url));
  const renderer = fork(program, [], {
    // It needs no settings, which may hold secrets.
    env: {},
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const ended = once(renderer, 'exit').then(([code]) => {
    throw new Error(`The script of the documentation could not be read: its process ended with ${code}.`);
  });
  ended.catch(() => {});
  const [script] = (await Promise.race([once(renderer, 'message'), ended])) as [Buffer];
  return script;
}
