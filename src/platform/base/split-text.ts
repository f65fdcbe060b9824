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
