const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ012345';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const INSTANCE = '5g0000';

/** The three characters that make a 15-character, case-sensitive id safe to compare without case. */
export function caseChecksum(id15: string): string {
  let suffix = '';
  for (let block = 0; block < 3; block += 1) {
    let bits = 0;
    for (let position = 0; position < 5; position += 1) {
      const character = id15.charCodeAt(block * 5 + position);
      if (character >= 65 && character <= 90) bits |= 1 << position;
    }
    suffix += ALPHABET.charAt(bits);
  }
  return suffix;
}

/** An 18-character id: key prefix of the object, a fixed instance part, a running number in base 62. */
export function makeId(keyPrefix: string, sequence: number): string {
  let digits = '';
  for (let rest = sequence; rest > 0; rest = Math.floor(rest / 62))
    digits = BASE62.charAt(rest % 62) + digits;
  const id15 = keyPrefix + INSTANCE + digits.padStart(6, '0');
  return id15 + caseChecksum(id15);
}

/** The running number inside an id made by `makeId`; 0 for any other id. */
export function sequenceOf(id: string): number {
  if (id.slice(3, 9) !== INSTANCE) return 0;
  let sequence = 0;
  for (const digit of id.slice(9, 15)) sequence = sequence * 62 + BASE62.indexOf(digit);
  return sequence;
}

function restoreCase(id18: string): string | undefined {
  const suffix = id18.slice(15).toUpperCase();
  let id15 = '';
  for (let index = 0; index < 15; index += 1) {
    const bits = ALPHABET.indexOf(suffix.charAt(Math.floor(index / 5)));
    if (bits < 0) return undefined;
    const character = id18.charAt(index);
    id15 += bits & (1 << (index % 5)) ? character.toUpperCase() : character.toLowerCase();
  }
  return caseChecksum(id15) === suffix ? id15 : undefined;
}

/**
 * The 15-character form of an id given with 15 or 18 characters; undefined for what is no id. With 18 characters the
 * case is taken from the checksum, so an id whose case was lost on the way still finds its record.
 */
export function toId15(value: string): string | undefined {
  if (!/^[a-zA-Z0-9]+$/.test(value)) return undefined;
  if (value.length === 15) return value;
  return value.length === 18 ? restoreCase(value) : undefined;
}
