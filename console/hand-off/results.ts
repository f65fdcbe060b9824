import { fieldOf, isObject, parseDigits, partsOf } from '../shared/json-text.ts';
import { atMost255, guessName, guessSupplier } from './guess.ts';

/** A search result that can be handed off. */
export interface Result {
  id: string;
  name: string;
  source: string;
  /** JSON text, every digit as it was loaded. */
  details: string;
  /** Name and supplier are guessed: the person may know better. */
  isGuessed: boolean;
}

/** More would only slow the page down. */
const most = 500;

let loaded = 0;

/** The results in a JSON text: one object, or an array of them. Throws an Error that says what is wrong. */
export function readResults(json: string): Result[] {
  const value = parse(json);
  const items = Array.isArray(value) ? partsOf(json) : [json];
  if (items.length === 0) throw new Error('The array is empty.');
  if (items.length > most)
    throw new Error(`These are ${items.length} results; load at most ${most} at once.`);
  return items.map((text, i) => readResult(text, i));
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** As in the hand-off's `result`, or any other object, which then is the details. */
function readResult(text: string, position: number): Result {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new Error(`Result ${position + 1} is no object.`);
  const id = `result-${++loaded}`;
  const details = fieldOf(text, 'details');
  if (
    typeof value['name'] === 'string' &&
    typeof value['source'] === 'string' &&
    isObject(value['details'])
  ) {
    const given = { name: atMost255(value['name']), source: atMost255(value['source']) };
    // What is empty would be refused: somebody has to fill it in.
    const isGuessed = given.name === '' || given.source === '';
    return { id, ...given, details: details ?? '{}', isGuessed };
  }
  const digits = parseDigits(text);
  return {
    id,
    name: guessName(digits),
    source: guessSupplier(digits),
    details: text.trim(),
    isGuessed: true,
  };
}

/**
 * Puts moments into the text of the samples, so that their offers are always for the next weeks: `{{+45m}}` is a moment
 * in UTC, `{{+30d}}` a date, `{{+30d T15:00}}` a date with a time of day.
 */
export function withMoments(text: string, now: number): string {
  const pattern = /\{\{([+-]\d+)([md])(?: (T\d\d:\d\d))?\}\}/g;
  return text.replaceAll(pattern, (_, count: string, unit: string, time: string | undefined) => {
    const at = new Date(now + Number(count) * (unit === 'm' ? 60_000 : 86_400_000)).toISOString();
    if (unit === 'm') return at;
    return at.slice(0, 10) + (time === undefined ? '' : `${time}:00`);
  });
}
