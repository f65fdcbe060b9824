import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TSchema } from 'typebox';
import { problemCodes } from '../src/api/openapi/problem-responses.ts';
import { documentedRoutes } from '../src/app/routes.ts';
import { settingsTable } from '../src/app/settings.ts';
import { type ProblemCode, problems } from '../src/platform/base/problems.ts';
import type { Setting } from '../src/platform/settings/setting.ts';
import { chartFiles } from './chart-files.ts';

/*
 * Writes the reference pages whose content stands in tables of the code, docs/settings.md and docs/errors.md, and two files
 * of the Helm chart. Run it after a change to one of those tables: node scripts/generate-docs.ts
 */

const root = join(import.meta.dirname, '..');
const note = '<!-- Written by scripts/generate-docs.ts; change the tables in src/ and run it again. -->';

/** The files by path inside the project. */
export function generatedPages(): Record<string, string> {
  return { 'docs/settings.md': settingsPage(), 'docs/errors.md': errorsPage(), ...chartFiles() };
}

function settingsPage(): string {
  const rows = Object.entries(settingsTable as Record<string, Setting>).map(([key, row]) => [
    code(key),
    code(row.env),
    valuesOf(row.schema),
    showDefault(row.fallback),
    row.doc,
  ]);
  return page('Settings', settingsIntroduction, [
    table(['key', 'variable', 'value', 'default', 'meaning'], rows),
    settingsRules,
  ]);
}

/** A default that follows from other settings is explained in the meaning. */
function showDefault(fallback: unknown): string {
  if (typeof fallback === 'function') return 'see meaning';
  if (fallback === undefined) return 'not set';
  return code(typeof fallback === 'string' ? fallback : JSON.stringify(fallback));
}

/** The schema of a setting in words. */
function valuesOf(schema: TSchema): string {
  const {
    type,
    enum: choices,
    description,
  } = schema as {
    type?: string;
    enum?: unknown[];
    description?: string;
  };
  if (choices !== undefined) return choices.map((choice) => code(String(choice))).join(', ');
  if (type === 'integer') return `whole number${rangeOf(schema)}`;
  if (type === 'number') return `number${rangeOf(schema)}`;
  if (type === 'boolean') return '`true` or `false`';
  if (type === 'array') return 'list of texts; in the variable with commas between them';
  return description ?? 'text';
}

function rangeOf(schema: TSchema): string {
  const { minimum, exclusiveMinimum, maximum } = schema as Record<string, number | undefined>;
  const low =
    minimum === undefined
      ? exclusiveMinimum === undefined
        ? ''
        : ` over ${exclusiveMinimum}`
      : `, ${minimum}`;
  if (maximum === undefined) return low === '' ? '' : `${low} or more`;
  return exclusiveMinimum === undefined ? `${low} to ${maximum}` : `${low}, at most ${maximum}`;
}

const settingsIntroduction = `
Each setting has a key for the configuration file and an environment variable that overrides it. The file is
\`handoff.config.json\` in the working directory, or the one that \`--config FILE\` names; it need not exist. A key with a
dot is a field of an object: \`crm.loginUrl\` is \`{"crm": {"loginUrl": "…"}}\`. An empty variable counts as not set.

A setting that is unknown, wrong or missing keeps the service from starting. The message names all of them at once.
A variable that begins like those of the sections (\`CRM_\`, \`HANDOFF_\`, \`RATE_LIMIT_\` and so on) and is none of them
is refused with the nearest name; the variables that Kubernetes and Docker set for other services are not. Any other variable
whose name is nearly that of a setting, \`LOGLEVEL\` for example, is named in a warning of the log.
`;

const settingsRules = `## One file for several environments

\`environments.dev\`, \`environments.staging\` and \`environments.prod\` may hold any of the settings. The section that
\`environment\` names is laid over the rest of the file, and environment variables over both:

\`\`\`json
{
  "logLevel": "info",
  "environments": {
    "staging": { "crm": { "loginUrl": "https://test.salesforce.com", "clientId": "…", "username": "…" } },
    "prod": { "crm": { "loginUrl": "https://login.salesforce.com", "clientId": "…", "username": "…" } }
  }
}
\`\`\`

## Settings that belong together

- Of \`crm.loginUrl\`, \`crm.clientId\` and \`crm.username\`, all are needed as soon as one of them, \`crm.audience\` or
  \`crm.privateKeySecret\` is set. With none of them set, the simulated org is used.
- \`workers\` over 1 needs \`databaseUrl\` and \`redisUrl\`.
- \`dining.baseUrl\` and \`dining.username\` are needed as soon as one of them or \`dining.passwordSecret\` is set. With
  none of them set, a simulated partner is used, and in production there are no reservations.
- \`tls.certFile\` and \`tls.keyFile\` belong together, and so do \`tls.clientCaFile\` and \`tls.clientAuth\`, which need the
  first two.
- \`NODE_ENV=production\` needs \`environment\`, \`databaseUrl\`, \`redisUrl\` and those three, takes no simulated org, makes
  no first consumers, and accepts an \`http://\` address of the CRM or the partner on this machine only.`;

function errorsPage(): string {
  const used = new Set(documentedRoutes().flatMap(problemCodes));
  const codes = Object.keys(problems) as ProblemCode[];
  const rows = (wanted: ProblemCode[]) =>
    wanted.map((name) => {
      const { status, title, advice } = problems[name];
      return [code(name), String(status), title, advice];
    });
  const header = ['code', 'status', 'title', 'what to do'];
  const reserved = codes.filter((name) => !used.has(name));
  const explained = 'No operation of this version answers with these. Their meaning will not change:';
  return page('Errors', errorsIntroduction, [
    table(header, rows(codes.filter((name) => used.has(name)))),
    ...(reserved.length === 0
      ? []
      : [`## Reserved codes\n\n${explained}\n\n${reserved.map(code).join(', ')}.`]),
  ]);
}

const errorsIntroduction = `
Every error is a problem document (RFC 9457) with the content type \`application/problem+json\`. Programs decide by \`code\`;
a code keeps its meaning for ever. \`title\` belongs to the code, \`detail\` to this one answer: both are for people.

\`\`\`json
{
  "type": "/v1/problems/permission_denied",
  "title": "The credentials lack a permission",
  "status": 403,
  "detail": "These credentials lack the permission bookings:write.",
  "code": "permission_denied",
  "request_id": "933bfcba-80b2-48dd-b31b-e58b7b06d3e3",
  "required": { "resource": "bookings", "action": "write" }
}
\`\`\`

| field | when | meaning |
| --- | --- | --- |
| \`type\`, \`title\`, \`status\`, \`detail\`, \`code\` | always | see above; \`type\` is the path of a page that explains \`code\` |
| \`request_id\` | always | the \`X-Request-Id\` of the request: the operator finds the request in the log by it |
| \`errors\` | something in the request is at fault | up to 20 places, each with \`message\` and one of \`pointer\` (JSON Pointer into the body), \`parameter\` (path or query), \`header\` |
| \`required\` | 403 | the permission that is missing |
| \`retry_after\` | a repeat may help later | seconds, the same as the header \`Retry-After\` |
| \`external_id\` | the outcome of a write without Idempotency-Key is unknown | the record to look up before the request is sent again |

What is no HTTP request is answered with \`invalid_request\` and the status that HTTP has for it: 408 when the request
did not arrive in [its time](rate-limits.md#time-and-size-of-a-request), 431 when request line and headers are over 16 KiB, 400
otherwise.
`;

function page(title: string, introduction: string, parts: string[]): string {
  return `${[note, `# ${title}`, introduction.trim(), ...parts].join('\n\n')}\n`;
}

function table(header: string[], rows: string[][]): string {
  const lines = [header, header.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** In a table a bar would end the cell, even inside code. */
function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``;
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(generatedPages())) {
    writeFileSync(join(root, path), text);
    console.log(`wrote ${path}`);
  }
}
