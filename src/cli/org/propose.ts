import type { Described, DescribedField, DescribedObject } from '../../crm/describe.ts';
import { checkResource, typeOf } from '../../crm/schema-check.ts';
import { type Mapping, type Resources, resourcesOf } from '../../records/mapping.ts';
import type { Constant } from '../../records/resource.ts';

/** A guess, with its reason in words. */
export interface Guess<T> {
  value: T;
  why: string;
}

/** How the org may have one resource; undefined where no object looks like it. */
export interface ProposedResource {
  object: Guess<string>;
  fields: Record<string, Guess<string | string[] | null>>;
  set: Record<string, Guess<Constant>>;
  /** Further fields of the object that the API could have, by the name that they would get. */
  add: Record<string, string>;
}

export type Proposal = Record<keyof Resources, ProposedResource | undefined>;

const textTypes = ['string', 'textarea'];
/** Characters that a long text holds at least, to be taken for the details of a search result. */
const leastDetails = 4096;

const words = {
  member: /contact|member|travell?er|customer|client|guest|passenger|person|profile/i,
  quote: /quot(e|ation)|offer|proposal|estimate/i,
  booking: /booking|reservation|order|sale/i,
};

/** Guesses a mapping from keys, lookups, lengths and names of the objects. */
export function proposeMapping(described: Described): Proposal {
  const objects = [...described.values()].filter((object) => object !== null);
  const member = bestMember(objects);
  const records = member === undefined ? [] : recordObjects(objects, member);
  const [quote, booking] = (['quote', 'booking'] as const).map((name) =>
    records.find((object) => words[name].test(object.name)),
  );
  const proposal: Proposal = {
    member: member && proposeMember(member),
    quote: member && quote && proposeRecords('quote', quote, member),
    booking: member && booking && booking !== quote ? proposeRecords('booking', booking, member) : undefined,
  };
  for (const name of ['quote', 'booking'] as const) addConstants(proposal, name, described);
  return proposal;
}

/** The mapping that the file would hold. */
export function toMapping(proposal: Proposal): Mapping {
  const resources = Object.fromEntries(
    Object.entries(proposal).flatMap(([name, proposed]) =>
      proposed ? [[name, resourceMapping(proposed)]] : [],
    ),
  );
  return { version: 1, resources };
}

function resourceMapping({ object, fields, set }: ProposedResource) {
  const values = <T>(guesses: Record<string, Guess<T>>) =>
    Object.fromEntries(Object.entries(guesses).map(([name, { value }]) => [name, value]));
  return {
    object: object.value,
    fields: values(fields),
    ...(Object.keys(set).length > 0 && { set: values(set) }),
  };
}

/** The object that looks most like people; one with a key, if there is any. */
function bestMember(objects: readonly DescribedObject[]): DescribedObject | undefined {
  const score = (object: DescribedObject) =>
    Number(words.member.test(object.name)) * 2 +
    Number(object.fields.some(({ type }) => type === 'email')) * 2 +
    Number(objects.some(({ fields }) => fields.some(({ referenceTo }) => referenceTo.includes(object.name))));
  const [best] = objects
    .filter((object) => score(object) >= 3)
    .sort((a, b) => Number(hasKey(b)) - Number(hasKey(a)) || score(b) - score(a));
  return best;
}

/** What can be created and leads to members: first what has all that is needed, then what `org package` can complete. */
function recordObjects(objects: readonly DescribedObject[], member: DescribedObject): DescribedObject[] {
  const leading = objects.filter(
    (object) =>
      object.createable && object !== member && object.fields.some((field) => leadsTo(field, member)),
  );
  const isWhole = (object: DescribedObject) => hasKey(object) && object.fields.some(isLongText);
  return [
    ...leading.filter(isWhole),
    ...leading.filter((object) => object.name.endsWith('__c') && !isWhole(object)),
  ];
}

function hasKey(object: DescribedObject): boolean {
  return keyOf(object) !== undefined;
}

/** The field that may hold the API's id. */
function keyOf({ fields }: DescribedObject): DescribedField | undefined {
  const keys = fields.filter(
    ({ type, unique, externalId, length }) => type === 'string' && unique && externalId && length >= 36,
  );
  return first(keys, [/external.?id/i, /gateway|handoff/i, /key|uuid|guid/i, /./]);
}

function leadsTo({ referenceTo, relationshipName }: DescribedField, { name }: DescribedObject): boolean {
  return referenceTo.includes(name) && relationshipName !== null;
}

function isLongText({ type, length, createable }: DescribedField): boolean {
  return type === 'textarea' && length >= leastDetails && createable;
}

/** The field whose name fits the first of the patterns that fits any. */
function first(fields: readonly DescribedField[], patterns: readonly RegExp[]): DescribedField | undefined {
  for (const pattern of patterns) {
    const found = fields.find(({ name }) => pattern.test(name));
    if (found) return found;
  }
  return undefined;
}

function proposeMember(object: DescribedObject): ProposedResource {
  const texts = object.fields.filter(({ type }) => textTypes.includes(type));
  const ofType = (wanted: string) => object.fields.filter(({ type }) => type === wanted);
  return {
    object: { value: object.name, why: hasKey(object) ? 'people with a unique external ID' : 'people' },
    fields: {
      id: needed(keyOf(object), 'unique external ID', 'External_Id__c'),
      first_name: named(first(texts, [/^FirstName$/, /(first|given|fore)_?name/i]), 'by its name'),
      last_name: named(first(texts, [/^LastName$/, /(last|family)_?name|surname/i]), 'by its name'),
      email: named(first(ofType('email'), [/^Email$/, /e?mail/i, /./]), 'of the type e-mail'),
      phone: named(first(ofType('phone'), [/^Phone$/, /mobile/i, /phone/i, /./]), 'of the type phone'),
    },
    set: {},
    add: {},
  };
}

function proposeRecords(
  name: 'quote' | 'booking',
  object: DescribedObject,
  member: DescribedObject,
): ProposedResource {
  const writable = object.fields.filter(({ createable }) => createable);
  const texts = (least: number) =>
    writable.filter(({ type, length, unique }) => type === 'string' && length >= least && !unique);
  const lookups = writable.filter((field) => leadsTo(field, member));
  const lookup = first(lookups, [words.member, /./]);
  const details = detailsOf(writable.filter(isLongText));
  const fields: ProposedResource['fields'] = {
    id: needed(keyOf(object), 'unique external ID', 'External_Id__c'),
    trip_id: needed(
      first(texts(36), [/trip/i, /journey|itinerary|voyage|travel.?(id|ref)/i]),
      'text of 36 characters or more',
      'Trip_Id__c',
    ),
    member_id: { value: lookup?.relationshipName ?? null, why: `leads to ${member.name}` },
    name: needed(nameOf(texts(80)), 'text that a person reads', 'Name__c'),
    source: named(
      first(texts(40), [
        /^(source|supplier|vendor|provider)(_?name)?(__c)?$/i,
        /source|supplier|vendor|provider/i,
      ]),
      'by its name',
    ),
    details: detailsGuess(details),
    status: statusOf(writable),
    consumer_id: named(
      first(texts(64), [/consumer_?id/i, /consumer(__c)?$/i]),
      'text of 64 characters or more',
    ),
    consumer_name: named(first(texts(255), [/consumer_?name/i]), 'by its name'),
    actor: named(first(texts(255), [/actor/i, /(^|_)person/i]), 'by its name'),
  };
  const used = new Set(Object.values(fields).flatMap(({ value }) => value ?? []));
  const add = object.fields.filter(
    (field) =>
      field.name.endsWith('__c') &&
      !used.has(field.name) &&
      field !== lookup &&
      typeOf(field) &&
      !isLongText(field),
  );
  return {
    object: {
      value: object.name,
      why: `has a lookup to ${member.name}; a ${name} by its name`,
    },
    fields,
    set: {},
    add: Object.fromEntries(add.map((field) => [apiName(field.name), field.name])),
  };
}

function named(field: DescribedField | undefined, why: string): Guess<string | null> {
  return field ? { value: field.name, why } : { value: null, why: 'no field looks like it' };
}

/** What a mapping can't do without: where nothing looks like it, the field that `org package` makes. */
function needed(field: DescribedField | undefined, why: string, made: string): Guess<string | null> {
  if (field) return named(field, why);
  return { value: made, why: 'no field looks like it: name yours, or `handoff org package` makes this one' };
}

function nameOf(texts: readonly DescribedField[]): DescribedField | undefined {
  const own = texts.filter(({ name }) => !/consumer|supplier|source|trip/i.test(name));
  return first(own, [
    /^name__c$/i,
    /^(title|subject|heading|label|description)(__c)?$/i,
    /title|subject/i,
    /^Name$/,
    /name/i,
  ]);
}

/** A status must take what new records get. */
function statusOf(writable: readonly DescribedField[]): Guess<string | null> {
  const fitting = writable.filter(({ type }) => type === 'picklist' || type === 'string');
  const found = first(fitting, [/^(status|stage|state|progress|phase)(__c)?$/i, /status|stage/i]);
  if (found === undefined || !found.restrictedPicklist || found.values.includes('created'))
    return named(found, 'by its name');
  return { value: null, why: `${found.name} does not take the value created` };
}

function detailsGuess(columns: string[]): Guess<string | string[] | null> {
  if (columns.length === 0) return needed(undefined, '', 'Details__c');
  return { value: columns.length === 1 ? (columns[0] as string) : columns, why: 'long text' };
}

/** Long texts that count up, such as Details__c, Details_2__c; of several such rows the one that sounds like content. */
function detailsOf(fields: readonly DescribedField[]): string[] {
  const rows = Map.groupBy(fields, ({ name }) => name.replace(/_?\d*(__c)?$/i, ''));
  const names = [...rows.keys()];
  const best = names.find((name) => /detail|payload|data|json|content|result/i.test(name)) ?? names[0];
  const place = (name: string) => Number(/(\d+)(__c)?$/i.exec(name)?.[1] ?? 0);
  return (rows.get(best ?? '') ?? [])
    .map(({ name }) => name)
    .sort((a, b) => place(a) - place(b))
    .slice(0, 20);
}

function apiName(column: string): string {
  return column
    .replace(/__c$/i, '')
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll(/_+/g, '_')
    .toLowerCase();
}

/** Constants for what new records must have and nothing else sets. */
function addConstants(proposal: Proposal, name: 'quote' | 'booking', described: Described): void {
  const proposed = proposal[name];
  if (proposed === undefined) return;
  const resources = resourcesOf(toMapping(proposal));
  const object = described.get(proposed.object.value.toLowerCase());
  for (const { column, needs } of checkResource(resources[name], described, resources.member.crmObject)
    .misfits) {
    const field = needs.includes('create') && object?.fields.find((one) => one.name === column);
    const value = field && constantFor(field);
    if (field && value !== undefined) {
      proposed.set[field.name] = { value, why: 'required in new records: choose what fits' };
      delete proposed.add[apiName(field.name)];
    }
  }
}

function constantFor({ type, length, values }: DescribedField): Constant | undefined {
  if (values.length > 0) return values[0];
  if (type === 'string' || type === 'textarea') return 'Handoff Gateway'.slice(0, length || 15);
  return ['int', 'double', 'currency', 'percent'].includes(type) ? 0 : undefined;
}
