import type { HttpAnswer, HttpCall } from '../../shared/exchange.ts';
import { edgeAnswer } from '../exchange.ts';
import { toId15 } from '../org/ids.ts';
import type { Org } from '../org/org.ts';
import type { ObjectType, Row, Value } from '../org/schema.ts';

/** Whether a path is that of a record's page, as a person opens it in an org: `/` and the record's id. */
export function isRecordPath(pathname: string): boolean {
  return /^\/[A-Za-z0-9]{15}(?:[A-Za-z0-9]{3})?$/.test(pathname);
}

/** A record as a page. An org asks a person to log in first; nobody logs in here. */
export function recordPage(org: Org, { method, pathname }: HttpCall): HttpAnswer {
  if (method !== 'GET' && method !== 'HEAD') return edgeAnswer(405, 'Method Not Allowed');
  const id = toId15(pathname.slice(1));
  for (const type of org.schema.objects) {
    const row = id === undefined ? undefined : org.store.get(type, id);
    if (row !== undefined) return page(type, row);
  }
  return edgeAnswer(404, 'This record does not exist, or it was deleted.');
}

function page(type: ObjectType, row: Row): HttpAnswer {
  const title = escape(String(row['Name__c'] ?? row['Name'] ?? row.Id));
  const fields = [...type.fields.values()].flatMap(({ name, label }) => {
    const value = row[name];
    return value === undefined
      ? []
      : [
          `<tr><th scope="row">${escape(label)}<br><code>${escape(name)}</code></th><td>${show(value)}</td></tr>`,
        ];
  });
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><style>${style}</style></head>
<body><p>${escape(type.label)} in the simulated org</p><h1>${title}</h1><table>
${fields.join('\n')}
</table></body></html>
`;
  const headers = {
    'Content-Type': 'text/html; charset=UTF-8',
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
  return { status: 200, headers, body };
}

function show(value: Value): string {
  const text = String(value);
  const isLong = text.length > 200 || text.includes('\n') || /^[{[]/.test(text);
  return isLong ? `<pre>${escape(indented(text))}</pre>` : escape(text);
}

/** JSON with line breaks, its numbers digit for digit; any other text as it is. */
function indented(text: string): string {
  try {
    const keepDigits = (_: string, value: unknown, { source }: { source?: string }) =>
      typeof value === 'number' && source !== undefined ? rawJson(source) : value;
    return JSON.stringify(JSON.parse(text, keepDigits as Parameters<typeof JSON.parse>[1]), null, 2);
  } catch {
    return text;
  }
}

/** Of ECMAScript 2026; the compiler's library has no name for it yet. */
const { rawJSON: rawJson } = JSON as unknown as { rawJSON: (text: string) => unknown };

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

const style = `:root{color-scheme:light dark;font:14px/1.5 system-ui,sans-serif}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
p,code{color:light-dark(#566070,#a3adbb)}h1{font-size:1.3rem}table{width:100%;border-collapse:collapse}
th,td{padding:.5rem;text-align:left;vertical-align:top;border-top:1px solid light-dark(#d9dde3,#343a44)}
th{width:14rem;font-weight:500}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}`;
