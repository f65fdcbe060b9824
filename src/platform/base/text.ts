/** A UUID of any version, in upper or lower case (RFC 9562 section 4). */
const expression = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** A UUID of version 8 (RFC 9562 section 5.8) of the first 16 bytes of a hash: the same hash gives the same UUID. */
export function uuidOfHash(hash: Uint8Array): string {
  const bytes = Buffer.from(hash.subarray(0, 16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

export function isUuid(text: string): boolean {
  return expression.test(text);
}

/** A copy that does not keep the longer text it was cut from in memory; for characters up to U+00FF. */
export function copyOfText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

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

/** At most so many UTF-16 units, and no half of a character at the end. */
export function startOf(text: string, units: number): string {
  return text.length <= units ? text : text.slice(0, units).replace(/[\ud800-\udbff]$/, '');
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

/** For text of HTML and XML, and attributes in double quotes. */
export function escapeMarkup(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] as string);
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

export interface TextColumns {
  /** UTF-16 code units that one column holds. */
  size: number;
  count: number;
}

/**
 * Characters that a system may trim from the ends of a text: white space by Unicode and ECMAScript (which adds U+FEFF),
 * control characters, and the zero-width space. Not joiners and direction marks: some emoji contain joiners.
 */
const fragile = /[\s\p{White_Space}\p{Cc}\u200b]/u;

/**
 * Cuts a text into as few parts as hold it, each as long as it can be, so that no part begins or ends with white space or
 * with half a character. Undefined where no such cuts fit the columns.
 */
export function splitText(text: string, { size, count }: TextColumns): string[] | undefined {
  const parts: string[] = [];
  let start = 0;
  while (text.length - start > size) {
    let end = start + size;
    while (end > start && !canCut(text, end)) end -= 1;
    if (end === start || parts.length === count) return undefined;
    parts.push(text.slice(start, end));
    start = end;
  }
  parts.push(text.slice(start));
  return parts.length <= count ? parts : undefined;
}

/** The text of such columns, up to the first empty one; undefined if the first is empty and another is not. */
export function joinText(parts: readonly string[]): string | undefined {
  const end = parts.indexOf('');
  if (end === 0 && parts.some((part) => part !== '')) return undefined;
  return parts.slice(0, end < 0 ? parts.length : end).join('');
}

export function splitsAnywhere(text: string, around: number, { size, count }: TextColumns): boolean {
  const length = text.length + around;
  if (length <= size) return true;
  // In the worst case the surrounding text cannot be cut, so every part may be shorter by its length, and by the distance
  // between two cuts of this text.
  const maxDistance = size - around - Math.ceil(length / count);
  return maxDistance > 0 && splitText(text, { size: maxDistance, count: length }) !== undefined;
}

function canCut(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  const splitsCharacter = before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
  return !splitsCharacter && isSolid(before) && isSolid(after);
}

function isSolid(code: number): boolean {
  return code < 0x7f ? code > 0x20 : !fragile.test(String.fromCharCode(code));
}
