/** Escapes that SOQL knows; any other backslash is an error (SOQL and SOSL Reference, Quoted String Escape Sequences). */
const escapes: Record<string, string> = {
  '\\': '\\\\',
  "'": "\\'",
  '"': '\\"',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
};

/** Characters that must be escaped or refused: quotes, backslashes, controls, line separators, halves of surrogates. */
const special = /[\\'"]|\p{Cc}|\p{Zl}|\p{Zp}|\p{Cs}/gu;

/** Text that need not be checked character by character: identifiers, of which a query has many. */
const plain = /^[A-Za-z0-9-]*$/;

export function quoteText(text: string): string {
  if (plain.test(text)) return `'${text}'`;
  return `'${text.replace(special, escapeCharacter)}'`;
}

/**
 * A text as a part of a pattern for LIKE, without the quotes: the wildcards in it stand for themselves (SOQL and SOSL
 * Reference, Comparison Operators).
 */
export function likeText(text: string): string {
  return text.replace(special, escapeCharacter).replace(/[%_]/g, '\\$&');
}

function escapeCharacter(character: string): string {
  return escapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`;
}

const rfc3339Utc = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3})?Z$/;

/** A moment as a SOQL dateTime literal, which stands unquoted. Throws `RangeError` for anything that is none. */
export function formatDateTime(moment: string): string {
  if (!rfc3339Utc.test(moment) || Number.isNaN(Date.parse(moment)))
    throw new RangeError('not a moment in UTC');
  // Whole seconds, the CRM's own grain, need no fraction.
  return moment.replace('.000Z', 'Z');
}
