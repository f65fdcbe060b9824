import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TSchema } from 'typebox';
import { problemCodes } from '../src/api/openapi/problem-responses.ts';
import { documentedRoutes } from '../src/app/routes.ts';
import { settingsTable } from '../src/app/settings.ts';
import { errorTable } from '../src/crm/rest/error-codes.ts';
import { problemCodeOf } from '../src/crm/rest/problems.ts';
import { type ProblemCode, problems } from '../src/platform/base/problem.ts';
import { type Setting, text } from '../src/platform/settings/setting.ts';
import { mappingSchema } from '../src/records/mapping.ts';
import { deployFiles } from './deploy-files.ts';

/*
 * Writes the pages whose content stands in the code, docs/settings.md and docs/errors.md, the JSON Schema
 * of mapping files, and files of deploy/. Run it after a change to one of those tables: node scripts/generate-docs.ts
 */

const root = join(import.meta.dirname, '..');
const note = '<!-- Written by scripts/generate-docs.ts; change the tables in src/ and run it again. -->';

/** The files by path inside the project. */
export function generatedPages(): Record<string, string> {
  return {
    ...{ 'docs/settings.md': settingsPage(), 'docs/errors.md': errorsPage() },
    ...{ 'docs/mapping.schema.json': mappingSchemaFile(), ...deployFiles() },
  };
}

/** Editors complete a mapping file by it. */
function mappingSchemaFile(): string {
  const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', ...mappingSchema };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function settingsPage(): string {
  const rows = Object.entries(settingsTable as Record<string, Setting>).map(([key, row]) => [
    `${code(key)}<br>${code(row.env)}`,
    [valuesOf(row.schema), showDefault(row.fallback)].filter((part) => part !== '').join(' '),
    row.doc,
  ]);
  return page('Settings', settingsIntroduction, [
    table(['key, variable', 'value (default)', 'meaning'], rows),
    settingsRules,
  ]);
}

/** Empty where there is none, or where it follows from other settings, which the meaning says. */
function showDefault(fallback: unknown): string {
  if (typeof fallback === 'function' || fallback === undefined) return '';
  return `(${code(typeof fallback === 'string' ? fallback : JSON.stringify(fallback))})`;
}

/** The schema of a setting in words; nothing where any text will do. */
function valuesOf(schema: TSchema): string {
  if (schema === text) return '';
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
  if (type === 'integer' || type === 'number') return rangeOf(schema);
  if (type === 'boolean') return '`true`, `false`';
  if (type === 'array') return description ?? 'list';
  return description ?? 'text';
}

function rangeOf(schema: TSchema): string {
  const { minimum, exclusiveMinimum, maximum } = schema as Record<string, number | undefined>;
  if (exclusiveMinimum !== undefined) return `over ${exclusiveMinimum}, at most ${maximum}`;
  return maximum === undefined ? `${minimum} or more` : `${minimum} to ${maximum}`;
}

const settingsIntroduction = `
Each setting has a key for the configuration file (\`handoff.config.json\`, or \`--config FILE\`), and an environment
variable that overrides it. A key with a dot is a field of an object: \`crm.loginUrl\` is \`{"crm": {"loginUrl": "…"}}\`. In
variables, separate lists by commas; an empty variable counts as not set.

If settings are unknown, wrong or missing, the service names them all and doesn't start; for a variable that only looks like
a setting, such as \`LOGLEVEL\`, it logs a warning.
`;

const settingsRules = `## One file for several environments

\`environments.dev\`, \`environments.staging\` and \`environments.prod\` may hold any setting. The one that \`environment\`
names overrides the rest of the file:

\`\`\`json
{
  "logLevel": "info",
  "environments": {
    "staging": { "crm": { "loginUrl": "https://mydomainname--staging.sandbox.my.salesforce.com", "clientId": "…", "username": "…" } },
    "prod": { "crm": { "loginUrl": "https://mydomainname.my.salesforce.com", "clientId": "…", "username": "…" } }
  }
}
\`\`\`

## Settings that belong together

- \`crm.loginUrl\`, \`crm.clientId\` and \`crm.username\`; \`dining.baseUrl\` and \`dining.username\`; \`people.issuer\` and
  \`people.clientId\`.
- \`tls.certFile\` and \`tls.keyFile\`; with these, \`tls.clientCaFile\` and \`tls.clientAuth\`.
- \`NODE_ENV=production\` needs \`environment\`, \`databaseUrl\`, \`redisUrl\` and the three of \`crm\`, refuses simulators and
  \`http://\` except to this machine, and makes no first consumers.`;

function errorsPage(): string {
  const used = new Set(documentedRoutes().flatMap(problemCodes));
  const codes = Object.keys(problems) as ProblemCode[];
  const statuses = [...new Set(codes.map((name) => problems[name].status))].toSorted((a, b) => a - b);
  const byStatus = statuses.map((status) => {
    const named = codes.filter((name) => used.has(name) && problems[name].status === status);
    return `- ${status}: ${named.map(code).join(', ')}`;
  });
  const reserved = codes.filter((name) => !used.has(name));
  const explained = 'No operation answers with these yet. Their meaning will not change:';
  return page('Errors', errorsIntroduction, [
    byStatus.join('\n'),
    ...(reserved.length === 0
      ? []
      : [`## Reserved codes\n\n${explained}\n\n${reserved.map(code).join(', ')}.`]),
    crmErrorsIntroduction.trim(),
    crmErrors().join('\n'),
  ]);
}

function crmErrors(): string[] {
  return errorTable.map(({ codes, only, kind, advice }) => {
    const names = codes.map((name) => (name === '*' ? 'any' : code(name))).join(', ');
    const condition = only === undefined ? '' : ` (${only.where})`;
    return `- ${names}${condition}: ${kind === 'session' ? '' : `${code(problemCodeOf(kind))}. `}${advice}`;
  });
}

const crmErrorsIntroduction = `
## What Salesforce refuses

For operators and the org's administrators: Salesforce's code, ours, and what to do. The first line that fits applies; \`Salesforce refused a record\` in the log has Salesforce's codes by \`request_id\`.
`;

const errorsIntroduction = `
Every error is a problem document (RFC 9457), \`application/problem+json\`:

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

There may also be \`errors\` (up to 20 faults of the request, each with \`message\` and a \`pointer\` into the body, a \`parameter\` or a \`header\`), \`retry_after\`
(seconds, as \`Retry-After\`), and \`external_id\` (a write without Idempotency-Key whose outcome is unknown: look this record up first). Invalid HTTP is
\`invalid_request\` with 400, 408 or 431: [time and size](rate-limits.md#time-and-size).

Programs decide by \`code\`, which never changes its meaning. \`/v1/problems/<code>\` says what to do, with an example:
`;

function page(title: string, introduction: string, parts: string[]): string {
  return `${[note, `# ${title}`, introduction.trim(), ...parts].join('\n\n')}\n`;
}

function table(header: string[], rows: string[][]): string {
  const lines = [header, header.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** In a table a bar would end the cell, even inside code. */
function code(value: string): string {
  return `\`${value.replaceAll('|', '\\|')}\``;
}

if (import.meta.main) {
  for (const [path, content] of Object.entries(generatedPages())) {
    writeFileSync(join(root, path), content);
    console.log(`wrote ${path}`);
  }
}
