import { startOf } from '../../platform/base/text.ts';
import type { Resource } from '../../records/resource.ts';

const longestMessage = 300;

export function apiFieldOf(resource: Resource, column: string): string | undefined {
  const wanted = column.toLowerCase();
  return Object.entries(resource.fields).find(([, { crm }]) =>
    [crm.path, crm.lookupColumn, ...(crm.continuations ?? [])].some((name) => name?.toLowerCase() === wanted),
  )?.[0];
}

export function namesIn({ message, fields }: { message: string; fields: readonly string[] }): string[] {
  const quoted = message.slice(0, 4 * longestMessage).matchAll(/[^\p{L}\p{N}_\s.,:;()[\]<>=/-](\w{1,80})/gu);
  return [...fields, ...Array.from(quoted, ([, name = '']) => name)];
}

export function lookupFieldOf(resource: Resource): string | undefined {
  return Object.entries(resource.fields).find(([, { crm }]) => crm.lookupColumn !== undefined)?.[0];
}

/** A text of the CRM in one bounded line without native ids: 15 or 18 letters and digits, at least one digit. */
export function withoutIds(text: string): string {
  const line = startOf(text, 4 * longestMessage)
    .replace(/\p{Cc}+/gu, ' ')
    .replace(/(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?:[A-Za-z0-9]{15}|[A-Za-z0-9]{18})(?![A-Za-z0-9])/g, '(id)')
    .replace(/\s+/g, ' ')
    .trim();
  return startOf(line, longestMessage);
}

/**
 * A text of the CRM, such as a rule's message, as the API may show it: without native ids, HTML and stack traces, and with
 * columns named as in the API.
 */
export function scrub(text: string, resource: Resource | undefined): string {
  const plain = startOf(text, 4 * longestMessage)
    .replace(/<(?:br|\/?(?:p|li|div))\b[^<>]*>/gi, ' ')
    .replace(/<\/?[a-z][^<>]*>/gi, '')
    // Rest of tags within tags.
    .replace(/<(?=[/a-z])/gi, '')
    .replace(/\b(?:Class|Trigger)\.[\w.]+:? line \d+, column \d+/g, ' ');
  const named = withoutIds(plain).replace(/\b\w+\.\w+\b|\b\w+\b/g, (word) => apiNameOf(word, resource));
  return startOf(named, longestMessage);
}

function apiNameOf(word: string, resource: Resource | undefined): string {
  if (resource !== undefined) {
    if (word === resource.crmObject) return resource.name;
    const field = apiFieldOf(resource, word);
    if (field !== undefined && isColumnName(word)) return field;
  }
  if (!word.includes('.')) return /__[cr]$/i.test(word) ? '(field)' : word;
  return word
    .split('.')
    .map((part) => apiNameOf(part, resource))
    .join('.');
}

function isColumnName(word: string): boolean {
  return /__[cr]$/i.test(word) || /[a-z][A-Z]/.test(word);
}
