import { atMost255, guessName, guessSupplier, isMoment, offerEnd } from '../shared/guess.ts';
import { depthOf, fieldOf, isObject, parseDigits, partsOf } from '../shared/json-text.ts';

/** A search result that can be handed off. */
export interface Result {
  id: string;
  name: string;
  source: string;
  /** JSON text, every digit as it was loaded. */
  details: string;
  /** When the offer ends, in RFC 3339: it is sent, and nothing is made from then on. */
  validUntil: string | undefined;
  /** Name and supplier are guessed: the person may know better. */
  isGuessed: boolean;
}

/** More would only slow the page down. */
const most = 500;

/** Levels of details that the service takes. What is much deeper could not be read here either. */
const deepest = 100;

let loaded = 0;

/** Characters of all results as JSON: more than the service takes for all of them together. */
export const longest = 20 * 1024 * 1024;

/** The results in a JSON text: one object, or an array of them. Throws an Error that says what is wrong. */
export function readResults(json: string): Result[] {
  return resultsIn(json).map((text, i) => readResult(text, i));
}

/** Those that can be used, and what is wrong with the others. */
export function readUsable(json: string): { results: Result[]; faults: string[] } {
  const faults: string[] = [];
  const results = resultsIn(json).flatMap((text, i) => {
    try {
      return [readResult(text, i)];
    } catch (error) {
      faults.push((error as Error).message);
      return [];
    }
  });
  return { results, faults };
}

/** Each as JSON text. */
function resultsIn(json: string): string[] {
  if (json.length > longest) throw new Error('The results are over 20 MiB.');
  const value = parse(json);
  const items = Array.isArray(value) ? partsOf(json) : [json];
  if (items.length === 0) throw new Error('The list has no results.');
  if (items.length > most)
    throw new Error(`There are ${items.length} results; at most ${most} can be loaded at once.`);
  return items;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new Error(`This isn't JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** As in the hand-off's `result`, or any other object, which then is the details. */
function readResult(text: string, position: number): Result {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new Error(`Result ${position + 1} isn't an object.`);
  const id = `result-${++loaded}`;
  const details = fieldOf(text, 'details');
  if (depthOf(details ?? text) > deepest)
    throw new Error(`Result ${position + 1} is nested more than ${deepest} levels deep.`);
  const digits = parseDigits(text);
  const validUntil = endOf(value, digits, position);
  if (
    typeof value['name'] === 'string' &&
    typeof value['source'] === 'string' &&
    isObject(value['details'])
  ) {
    const known = { name: atMost255(value['name']), source: atMost255(value['source']) };
    // What is empty would be refused: somebody has to fill it in.
    const isGuessed = known.name === '' || known.source === '';
    return { id, ...known, details: details ?? '{}', validUntil, isGuessed };
  }
  return {
    id,
    name: guessName(digits),
    source: guessSupplier(digits),
    details: text.trim(),
    validUntil,
    isGuessed: true,
  };
}

/** Results that are given again stay the ones that were there: what became of them is known. */
export function withKnownIds(given: readonly Result[], before: readonly Result[] = []): Result[] {
  const left = [...before];
  return given.map((result) => {
    const at = left.findIndex((known) => isSame(known, result));
    return at < 0 ? result : { ...result, id: left.splice(at, 1)[0]?.id ?? result.id };
  });
}

function isSame(one: Result, other: Result): boolean {
  return (['name', 'source', 'details', 'validUntil'] as const).every((field) => one[field] === other[field]);
}

function endOf(value: Record<string, unknown>, digits: unknown, position: number): string | undefined {
  const { valid_until: given, details } = value;
  if (given === undefined) return offerEnd(isObject(details) ? details : digits);
  if (isMoment(given)) return given;
  throw new Error(`Result ${position + 1}: "valid_until" isn't a time such as 2030-03-02T18:00:00Z.`);
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
