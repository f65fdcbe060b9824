import { isObject } from '../shared/json-text.ts';

/*
 * What a result of any supplier tells a person at a glance. Suppliers agree on no names, so these look for the usual
 * ones; what is not found is not shown. Values come from `parseDigits`: numbers are texts.
 */

type Json = Record<string, unknown>;

interface Found {
  name: string;
  value: unknown;
  parent: Json;
  depth: number;
}

const deepest = 7;

/** Every field, those nearer to the top first. */
function fieldsIn(value: unknown): Found[] {
  const found: Found[] = [];
  const visit = (part: unknown, depth: number): void => {
    if (depth > deepest || found.length > 20_000) return;
    if (Array.isArray(part)) for (const item of part.slice(0, 50)) visit(item, depth);
    if (!isObject(part)) return;
    for (const [name, inner] of Object.entries(part)) {
      found.push({ name, value: inner, parent: part, depth });
      visit(inner, depth + 1);
    }
  };
  visit(value, 0);
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
const isDate = (value: unknown) =>
  isText(value) && /^\d{4}-\d\d-\d\d/.test(value) && !Number.isNaN(Date.parse(value));
/** A price of nothing is a deposit, or not known. */
const isAmount = (value: unknown) => isText(value) && /^\d[\d.,' ]*$/.test(value) && /[1-9]/.test(value);

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

/** What a person wants to know before the click. */
export interface AtAGlance {
  /** Amount as sent, and its currency. */
  price: string | undefined;
  /** What it cost before, where the result says that the price has changed. */
  previousPrice: string | undefined;
  /** Milliseconds since 1970. */
  expiresAt: number | undefined;
  /** The day, or the moment, as sent. */
  when: string | undefined;
  kind: string | undefined;
}

export function glance(details: unknown): AtAGlance {
  const fields = fieldsIn(details);
  const expiry = firstOf(
    fields,
    [
      /^(expires?(_?at|_?on)?|expiration(_?time|_?date)?|expiry(_?time|_?date)?)$/i,
      /(valid_?until|hold_?until|time_?limit|last_?ticketing|expir)/i,
    ],
    isDate,
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
    kind: kindOf(fields),
  };
}

const currentPrices = [
  /^(total_?amount|grand_?total|total_?price|price_?total|total_?fare)$/i,
  /^(total|price|amount|gross|net|value|retail_?price|selling_?price|fare|rate)$/i,
];
const previousPrices = [/^(previous|old|former|earlier|original)_?(price|total|amount|total_?amount)$/i];

/** An amount with the currency beside it, above it or anywhere. */
function priceIn(fields: Found[], names: RegExp[]): string | undefined {
  const found = firstOf(fields, names, (value) => isAmount(value) || amountIn(value) !== undefined);
  if (found === undefined) return undefined;
  const amount = amountIn(found.value) ?? String(found.value);
  const near = [found.value, found.parent].flatMap((part) => (isObject(part) ? [currencyIn(part)] : []));
  const currency = near.find(Boolean) ?? fields.map(({ parent }) => currencyIn(parent)).find(Boolean);
  return currency === undefined ? amount : `${amount} ${currency}`;
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
