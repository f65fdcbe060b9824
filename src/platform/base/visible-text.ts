/** Joiners are a part of names in some scripts, and of emoji. */
const joiners = /[\u200c\u200d]/g;

/**
 * Characters that are invisible, change the direction of the text around them, or act on a terminal: control characters
 * (C0 and C1), direction marks and other format characters, lone surrogates, line and paragraph separators, and unassigned
 * code points.
 */
const disturbing = /[\p{C}\p{Zl}\p{Zp}]/u;
const eachDisturbing = /(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/gu;

const ascii = /^[\x20-\x7e]*$/;
const asciiLines = /^[\n\x20-\x7e]*$/;

export const visibleRule = 'must have printable characters only';

/**
 * The rule for texts that people see in logs, audits and lists. A field of a request that breaks it is refused; other texts,
 * such as headers, are shown with `escapeInvisible`.
 */
export function isVisible(text: string): boolean {
  return ascii.test(text) || !disturbing.test(text.replaceAll(joiners, ''));
}

export function escapeInvisible(text: string): string {
  if (ascii.test(text) || !disturbing.test(text)) return text;
  return text.replaceAll(eachDisturbing, escaped);
}

function escaped(character: string): string {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('');
}

export function escapeLines(text: string): string {
  return asciiLines.test(text) ? text : text.split('\n').map(escapeInvisible).join('\n');
}

const eachDirection = /\p{Bidi_Control}/gu;

/**
 * The text with what turns its direction escaped as in JSON: JSON text then means the same, and shows its characters in
 * their order.
 */
export function escapeDirections(text: string): string {
  return ascii.test(text) ? text : text.replaceAll(eachDirection, escaped);
}

const eachEscape = /\\(?:u(?:061c|200[ef]|202[a-e]|206[6-9])|.)|\p{Bidi_Control}/giu;

/** JSON text whose values have the escapes in place of these characters, for readers who see no more than values. */
export function escapeDirectionsInValues(json: string): string {
  return json.replaceAll(eachEscape, (found) => {
    if (!found.startsWith('\\')) return `\\${escaped(found)}`;
    return found.length > 2 ? `\\${found.toLowerCase()}` : found;
  });
}
