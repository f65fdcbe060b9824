import { isObject } from './json-text.ts';

/*
 * What a result of any supplier shows a person at a glance. Suppliers agree on no names, so these look for the usual
 * ones; what is not found is not shown. Values come from `parseDigits`: numbers are texts.
 */

type Json = Record<string, unknown>;

interface Found {
  name: string;
  value: unknown;
  parent: Json;
  depth: number;
  /** It stands in a list: it is that of a line, not of the whole. */
  isOfLine: boolean;
}

const deepest = 7;

/** Every field, those nearer to the top first. */
function fieldsIn(value: unknown): Found[] {
  const found: Found[] = [];
  const visit = (part: unknown, depth: number, isOfLine: boolean): void => {
    if (depth > deepest || found.length > 20_000) return;
    if (Array.isArray(part)) for (const item of part.slice(0, 50)) visit(item, depth, true);
    if (!isObject(part)) return;
    for (const [name, inner] of Object.entries(part)) {
      found.push({ name, value: inner, parent: part, depth, isOfLine });
      visit(inner, depth + 1, isOfLine);
    }
  };
  visit(value, 0, false);
  return found.sort((a, b) => a.depth - b.depth);
}

/** The first field with one of the names, in the order of the names. */
function firstOf(fields: Found[], names: RegExp[], isRight: (value: unknown) => boolean): Found | undefined {
  for (const pattern of names) {
    const field = fields.find(({ name, value }) => pattern.test(name) && isRight(value));
    if (field) return field;
  }
  return undefined;
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
const isDate = (value: unknown) => isText(value) && /^\d{4}-\d\d-\d\d/.test(value);
/** One that the calendar has: browsers take 30 February for 2 March. */
const isRealDate = (value: unknown) => isText(value) && isRealDay(value) && !Number.isNaN(Date.parse(value));
/** A price of nothing is a deposit, or not known. */
const isAmount = (value: unknown) => isText(value) && /^\d[\d.,' ]*$/.test(value) && /[1-9]/.test(value);

/** Whether the calendar has the day that the text begins with, such as 2027-02-28. */
export function isRealDay(text: string): boolean {
  const day = text.slice(0, 10);
  const at = Date.parse(`${day}T12:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day);
}

/** As long as the API takes it, without half a character at its end. */
export function atMost255(text: string): string {
  return text.slice(0, 255).replace(/[\ud800-\udbff]$/, '');
}

const shortText = (value: unknown, standIn: string) => atMost255(isText(value) ? value : standIn);

export function guessName(value: unknown): string {
  const names = [/^(title|name|display_?name|headline|summary)$/i, /(title|name)$/i, /^(description|id)$/i];
  const found = firstOf(fieldsIn(value), names, isText);
  return shortText(found?.value, 'Search result');
}

export function guessSupplier(value: unknown): string {
  const names = [
    /^(source|supplier|provider|vendor|partner)$/i,
    /(source|supplier|provider|vendor|owner)/i,
    /^(carrier|operator|brand|airline)/i,
  ];
  const fields = fieldsIn(value);
  const found = firstOf(fields, names, (one) => isText(one) || (isObject(one) && isText(one['name'])));
  const name = isObject(found?.value) ? found.value['name'] : found?.value;
  return shortText(name, 'unknown');
}

/** Its digits are as they were sent; undefined currency where the result names none. */
export interface Money {
  amount: string;
  currency: string | undefined;
}

/** What a person wants to know before the click. */
export interface AtAGlance {
  price: Money | undefined;
  /** What it cost before, where the result says that the price has changed. */
  previousPrice: Money | undefined;
  /** Milliseconds since 1970. */
  expiresAt: number | undefined;
  /** The day, or the moment, as sent. */
  when: string | undefined;
  /** The place's, by its IANA name. */
  timeZone: string | undefined;
  kind: string | undefined;
}

/** Rows are laid out again and again. */
const known = new WeakMap<object, AtAGlance>();

/** `value`: details, or a record with its details. */
export function glance(value: unknown): AtAGlance {
  if (!isObject(value)) return look(value);
  const facts = known.get(value) ?? look(value);
  known.set(value, facts);
  return facts;
}

function look(details: unknown): AtAGlance {
  const fields = fieldsIn(details);
  const expiry = firstOf(
    fields,
    [
      /^(expires?(_?at|_?on)?|expiration(_?time|_?date)?|expiry(_?time|_?date)?)$/i,
      /(valid_?until|hold_?until|time_?limit|last_?ticketing|expir)/i,
    ],
    isRealDate,
  );
  const when = firstOf(
    fields,
    [
      /^(check_?in(_?date)?|arrival_date)$/i,
      /^(depart(ing|ure|s)?(_?(at|time|date|datetime))?|start(s)?(_?(at|time|date|datetime))?|pick_?up(_?(at|time|datetime))?|slot|date|travel_?date)$/i,
    ],
    isDate,
  );
  return {
    price: priceIn(fields, currentPrices),
    previousPrice: priceIn(fields, previousPrices),
    expiresAt: expiry && Date.parse(String(expiry.value)),
    when: when && String(when.value),
    timeZone: when && zoneIn(when.parent),
    kind: kindOf(fields),
  };
}

/** A zone beside the time. Browsers don't know every name that suppliers have. */
function zoneIn(part: Json): string | undefined {
  const zone = Object.entries(part).find(([name]) => /^time_?zone$/i.test(name))?.[1];
  if (!isText(zone)) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** Names that can only be those of the offer's end; others may be that of a card, a link or a price guarantee. */
const ends =
  /^(offer_?|quote_?)?(expires?(_?at|_?on)?|expiration(_?time|_?date)?|expiry(_?time|_?date)?|valid_?until|hold_?until)$/i;

/** When the offer ends, in RFC 3339, where the result says so plainly: near its top, as a moment with its time zone. */
export function offerEnd(value: unknown): string | undefined {
  const found = fieldsIn(value).find(
    ({ name, value: end, depth }) => depth <= 1 && ends.test(name) && isMoment(end),
  );
  return found && new Date(String(found.value)).toISOString();
}

/** RFC 3339 with a time zone. */
export function isMoment(value: unknown): value is string {
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;
  return isRealDate(value) && form.test(String(value));
}

const currentPrices = [
  /^(total_?amount|grand_?total|total_?price|price_?total|total_?fare)$/i,
  /^(total|price|amount|gross|net|value|retail_?price|selling_?price|fare|rate)$/i,
];
const previousPrices = [/^(previous|old|former|earlier|original)_?(price|total|amount|total_?amount)$/i];

/** An amount with the currency beside it, above it or anywhere. That of a line, such as a tax or a night, is no price of all. */
function priceIn(fields: Found[], names: RegExp[]): Money | undefined {
  const ofAll = fields.filter(({ isOfLine }) => !isOfLine);
  const found = firstOf(ofAll, names, (value) => isAmount(value) || amountIn(value) !== undefined);
  if (found === undefined) return undefined;
  const amount = amountIn(found.value) ?? String(found.value);
  const near = [found.value, found.parent].flatMap((part) => (isObject(part) ? [currencyIn(part)] : []));
  const currency = near.find(Boolean) ?? fields.map(({ parent }) => currencyIn(parent)).find(Boolean);
  return { amount, currency };
}

/** Of `{amount: "612.40", currency: "EUR"}`. */
function amountIn(value: unknown): string | undefined {
  if (!isObject(value)) return undefined;
  for (const name of ['total', 'grandTotal', 'amount', 'value', 'gross', 'net']) {
    if (isAmount(value[name])) return String(value[name]);
  }
  return undefined;
}

function currencyIn(part: Json): string | undefined {
  const entry = Object.entries(part).find(
    ([name, value]) => /currency/i.test(name) && isText(value) && /^[A-Z]{3}$/.test(value),
  );
  return entry && String(entry[1]);
}

const kinds: [kind: string, names: RegExp][] = [
  ['flight', /^(slices|flight_?(number|segments?)|marketing_?carrier|itineraries|cabin(_?class)?)$/i],
  ['rail', /^(train(s|_?number)?|trip_?legs|coach|rail_?card|ride_?mode)$/i],
  ['transfer', /^(transfer(_?type)?|pick_?up|drop_?off|vehicle)$/i],
  ['table', /^(party_?size|covers|seating|table(_?type)?|dining_?area)$/i],
  ['hotel', /^(hotel|property|room(s|_?type)?|check_?in(_?date)?|board(_?type)?)$/i],
  ['activity', /^(activity|tour(_?grade)?|product_?code|meeting_?point|inclusions|ticket_?types?)$/i],
];

/** The kind that the most fields speak for. */
function kindOf(fields: Found[]): string | undefined {
  const scores = kinds.map(([kind, names]) => ({
    kind,
    score: fields.filter(({ name }) => names.test(name)).length,
  }));
  const best = scores.sort((a, b) => b.score - a.score)[0];
  return best !== undefined && best.score > 0 ? best.kind : undefined;
}
