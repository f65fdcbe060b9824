import { type Described, type DescribedField, type DescribedObject, isRequired } from '../../crm/describe.ts';
import { typeOf } from '../../crm/schema-check.ts';
import { type Mapping, type Resources, resourcesOf } from '../../records/mapping.ts';
import { takenNames } from '../../records/mapping-file.ts';
import { writtenStatuses } from '../../records/quotes-and-bookings.ts';

export interface Guess<T> {
  value: T;
  why: string;
}

/** How the org may have one resource; undefined where no object looks like it. */
export interface ProposedResource {
  object: Guess<string>;
  fields: Record<string, Guess<string | string[] | null>>;
  add: readonly ProposedField[];
  /** Required fields of types that the API doesn't have. */
  unset: readonly string[];
}

export interface ProposedField {
  name: string;
  column: string;
  isRequired: boolean;
}

export type Proposal = Record<keyof Resources, ProposedResource | undefined>;

const textTypes = ['string', 'textarea'];
/** Characters that a long text holds at least, to be taken for the details of a search result. */
const leastDetails = 4096;

const defaults = resourcesOf();

const words = {
  member: /contact|member|travell?er|customer|client|guest|passenger|person|profile/i,
  quote: /quot(e|ation)|offer|proposal|estimate/i,
  booking: /booking|reservation|order|sale/i,
};

/** Whether an object's name or label suggests that it holds members, quotes or bookings. */
export function soundsLikeOurs({ name, label }: { name: string; label: string }): boolean {
  return Object.values(words).some((word) => word.test(name) || word.test(label));
}

export function proposeMapping(described: Described): Proposal {
  const objects = [...described.values()].filter((object) => object !== null);
  const [member, ...otherMembers] = membersBestFirst(objects);
  if (member === undefined) return { member: undefined, quote: undefined, booking: undefined };
  const records = recordObjects(objects, member);
  const quote = bestRecords('quote', records, member);
  const left = records.filter(({ name }) => name !== quote?.object.value);
  return {
    member: withRivals(proposeMember(member), otherMembers),
    quote,
    booking: bestRecords('booking', left, member),
  };
}

/** Takes the object with the most of the API's fields of those that look alike. */
function bestRecords(
  name: 'quote' | 'booking',
  records: readonly DescribedObject[],
  member: DescribedObject,
): ProposedResource | undefined {
  const alike = records
    .filter((object) => words[name].test(object.name))
    .map((object) => ({ object, proposed: proposeRecords(name, object, member) }));
  const [best, ...others] = alike.sort((a, b) => foundFields(b) - foundFields(a));
  return (
    best &&
    withRivals(
      best.proposed,
      others.map(({ object }) => object),
    )
  );
}

function foundFields({ object, proposed }: { object: DescribedObject; proposed: ProposedResource }): number {
  const columns = new Set(object.fields.map(({ name }) => name));
  return Object.values(proposed.fields).filter(({ value }) =>
    [value].flat().some((one) => columns.has(one ?? '')),
  ).length;
}

const mostRivals = 5;

function withRivals(proposed: ProposedResource, rivals: readonly DescribedObject[]): ProposedResource {
  if (rivals.length === 0) return proposed;
  const names = rivals.slice(0, mostRivals).map(({ name }) => name);
  const { value, why } = proposed.object;
  return { ...proposed, object: { value, why: `${why}; others like it: ${names.join(', ')}` } };
}

export function toMapping(proposal: Proposal): Mapping {
  const resources = Object.fromEntries(
    Object.entries(proposal).flatMap(([name, proposed]) =>
      proposed ? [[name, resourceMapping(proposed)]] : [],
    ),
  );
  return { version: 1, resources };
}

function resourceMapping({ object, fields, add }: ProposedResource) {
  const required = add.filter((field) => field.isRequired);
  return {
    object: object.value,
    fields: Object.fromEntries(Object.entries(fields).map(([name, { value }]) => [name, value])),
    ...(required.length > 0 && {
      add: Object.fromEntries(required.map((field) => [field.name, requiredMapping(field)])),
    }),
  };
}

function requiredMapping({ name, column }: ProposedField) {
  return { field: column, access: 'write' as const, required: true, from: `/result/details/${name}` };
}

function membersBestFirst(objects: readonly DescribedObject[]): DescribedObject[] {
  const score = (object: DescribedObject) =>
    Number(words.member.test(object.name)) * 2 +
    Number(object.fields.some(({ type }) => type === 'email')) * 2 +
    Number(objects.some(({ fields }) => fields.some(({ referenceTo }) => referenceTo.includes(object.name))));
  return objects
    .filter((object) => score(object) >= 3)
    .sort((a, b) => Number(hasKey(b)) - Number(hasKey(a)) || score(b) - score(a));
}

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

function keyOf({ fields }: DescribedObject): DescribedField | undefined {
  const keys = fields.filter(
    ({ type, unique, externalId, length }) => type === 'string' && unique && externalId && length >= 36,
  );
  return first(keys, [/external.?id/i, /gateway|handoff/i, /key|uuid|guid/i, /./]);
}

function leadsTo({ referenceTo, relationshipName }: DescribedField, { name }: DescribedObject): boolean {
  return referenceTo.length === 1 && referenceTo.includes(name) && relationshipName !== null;
}

function isLongText({ type, length, createable }: DescribedField): boolean {
  return type === 'textarea' && length >= leastDetails && createable;
}

/** Takes each field once, as `first` finds it. */
function pickFrom(used: Set<string>) {
  return (fields: readonly DescribedField[], patterns: readonly RegExp[]): DescribedField | undefined => {
    const found = first(
      fields.filter(({ name }) => !used.has(name)),
      patterns,
    );
    if (found) used.add(found.name);
    return found;
  };
}

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
    object: { value: object.name, why: hasKey(object) ? 'people, with a unique external ID' : 'people' },
    fields: {
      id: needed(keyOf(object), 'unique external ID', 'External_Id__c'),
      first_name: named(first(texts, [/^FirstName$/, /(first|given|fore)_?name/i]), 'matched by name'),
      last_name: named(first(texts, [/^LastName$/, /(last|family)_?name|surname/i]), 'matched by name'),
      email: named(first(ofType('email'), [/^Email$/, /e?mail/i, /./]), 'type is e-mail'),
      phone: named(first(ofType('phone'), [/^Phone$/, /mobile/i, /phone/i, /./]), 'type is phone'),
    },
    add: [],
    unset: [],
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
  const key = keyOf(object);
  const used = new Set(key ? [key.name] : []);
  const pick = pickFrom(used);
  const verified = pick(
    writable.filter(({ type }) => type === 'boolean'),
    [/(actor|person)_?verified/i],
  );
  const lookups = writable.filter((field) => leadsTo(field, member));
  const lookup = pick(lookups, [words.member, /./]);
  const details = detailsGuess(writable.filter(isLongText));
  const fields: ProposedResource['fields'] = {
    id: needed(key, 'unique external ID', 'External_Id__c'),
    trip_id: needed(
      pick(texts(36), [/trip/i, /journey|itinerary|voyage|travel.?(id|ref)/i]),
      'text of 36 characters or more',
      'Trip_Id__c',
    ),
    member_id: { value: lookup?.relationshipName ?? null, why: `looks up ${member.name}` },
    name: needed(pickName(texts(80), pick), 'readable text', 'Name__c'),
    source: named(
      pick(texts(40), [
        /^(source|supplier|vendor|provider)(_?name)?(__c)?$/i,
        /source|supplier|vendor|provider/i,
      ]),
      'matched by name',
    ),
    details,
    status: statusOf(writable, writtenStatuses[name], pick),
    consumer_id: named(
      pick(texts(64), [/consumer_?id/i, /consumer(__c)?$/i]),
      'text of 64 characters or more',
    ),
    consumer_name: named(pick(texts(255), [/consumer_?name/i]), 'matched by name'),
    actor: named(pick(texts(255), [/actor/i, /(^|_)person/i]), 'matched by name'),
    ...(verified && { verified: named(verified, 'matched by name') }),
  };
  const mapped = new Set([...used, ...Object.values(fields).flatMap(({ value }) => value ?? [])]);
  const rest = object.fields.filter((field) => !mapped.has(field.name));
  return {
    object: {
      value: object.name,
      why: `looks up ${member.name}, and its name suggests a ${name}`,
    },
    fields,
    ...furtherFields(rest, takenNames(defaults[name])),
  };
}

function furtherFields(
  rest: readonly DescribedField[],
  taken: readonly string[],
): Pick<ProposedResource, 'add' | 'unset'> {
  const [carried, others] = [rest.filter(typeOf), rest.filter((field) => typeOf(field) === undefined)];
  const further = carried.filter(
    (field) => isRequired(field) || (field.name.endsWith('__c') && !isLongText(field)),
  );
  return { add: withNames(further, taken), unset: others.filter(isRequired).map(({ name }) => name) };
}

function withNames(fields: readonly DescribedField[], taken: readonly string[]): ProposedField[] {
  const used = new Set(taken);
  return fields.map((field) => {
    const plain = apiName(field.name);
    let name = used.has(plain) ? shortened(`org_${plain}`, 40) : plain;
    for (let number = 2; used.has(name); number += 1) name = `${shortened(plain, 36)}_${number}`;
    used.add(name);
    return { name, column: field.name, isRequired: isRequired(field) };
  });
}

function named(field: DescribedField | undefined, why: string): Guess<string | null> {
  return field ? { value: field.name, why } : { value: null, why: 'no field looks like this' };
}

function needed(field: DescribedField | undefined, why: string, made: string): Guess<string | null> {
  if (field) return named(field, why);
  return {
    value: made,
    why: 'no field looks like this: name yours, or `handoff org package` creates this one',
  };
}

function pickName(texts: readonly DescribedField[], pick: typeof first): DescribedField | undefined {
  const own = texts.filter(({ name }) => !/consumer|supplier|source|trip/i.test(name));
  const patterns = [
    /^name__c$/i,
    /^(title|subject|heading|label|description)(__c)?$/i,
    /title|subject/i,
    /^Name$/,
    /name/i,
  ];
  return pick(own.filter(isRequired), patterns) ?? pick(own, patterns);
}

function statusOf(
  writable: readonly DescribedField[],
  written: readonly [string, ...string[]],
  pick: typeof first,
): Guess<string | null> {
  const patterns = [/^(status|stage|state|progress|phase)(__c)?$/i, /status|stage/i];
  const fitting = writable.filter(({ type }) => type === 'picklist' || type === 'string');
  const listing = (values: readonly string[]) =>
    fitting.filter((field) => values.every((value) => field.values.includes(value)));
  const listed = [listing(written), listing(written.slice(0, 1))].find((some) => some.length > 0) ?? [];
  const found = pick(listed, [...patterns, /./]);
  if (found) return named(found, `accepts the value ${written[0]}`);
  const open = pick(
    fitting.filter(({ restrictedPicklist }) => !restrictedPicklist),
    patterns,
  );
  if (open) return named(open, 'matched by name');
  const narrow = first(fitting, patterns);
  return {
    value: null,
    why: narrow ? `${narrow.name} doesn't accept the value ${written[0]}` : 'no field looks like this',
  };
}

const peoplesTexts =
  /note|comment|remark|descri|instruct|reason|terms|condition|wish|memo|message|summary|feedback|internal/i;

/**
 * Long texts as parts of one content: the one that sounds most like it, those that count up with it, then others of its
 * length. Shorter ones would make all parts shorter, and people may write in some: these are offered in words.
 */
function detailsGuess(fields: readonly DescribedField[]): Guess<string | string[] | null> {
  const rows = Map.groupBy(fields, ({ name }) => name.replace(/_?\d*(__c)?$/i, ''));
  const names = [...rows.keys()];
  const best =
    names.find((name) => /detail|payload|data|json|content|result/i.test(name)) ??
    names.find((name) => !peoplesTexts.test(name)) ??
    names[0];
  if (best === undefined) return needed(undefined, '', 'Details__c');
  const place = ({ name }: DescribedField) => Number(/(\d+)(__c)?$/i.exec(name)?.[1] ?? 0);
  const row = (rows.get(best) ?? []).toSorted((a, b) => place(a) - place(b));
  const { length = 0 } = row[0] ?? {};
  const others = fields.filter((field) => !row.includes(field));
  const isPart = (field: DescribedField) => field.length >= length && !peoplesTexts.test(field.name);
  const parts = [...row, ...others.filter(isPart)].slice(0, 20).map(({ name }) => name);
  const offered = others.flatMap(({ name, length: holds }) =>
    parts.includes(name) ? [] : [`${name} (${holds})`],
  );
  return {
    value: parts.length === 1 ? (parts[0] as string) : parts,
    why:
      (parts.length === 1
        ? 'long text'
        : 'long texts, filled in this order; nothing else may write to them') +
      (offered.length === 0 ? '' : `; others you can add: ${offered.join(', ')}`),
  };
}

/** `Rail_Class__c` is `rail_class`. */
function apiName(column: string): string {
  const name = column
    .replace(/__c$/i, '')
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll(/_+/g, '_')
    .toLowerCase();
  return shortened(name, 40);
}

function shortened(name: string, length: number): string {
  return name.slice(0, length).replace(/_$/, '');
}

const mostNamed = 20;

/** `unseen`: objects that were not looked at. */
export function formatProposal(proposal: Proposal, unseen: readonly string[]): string {
  const rest = unseen.length > mostNamed ? ` and ${unseen.length - mostNamed} more` : '';
  const lines = [
    "# Proposed by `handoff org map` from the org's objects and fields. Review each line, then run",
    '# `handoff org check --mapping` with this file.',
    ...(unseen.length === 0
      ? []
      : [`# Too many objects; these weren't looked at: ${unseen.slice(0, mostNamed).join(', ')}${rest}.`]),
    'version: 1',
    'resources:',
  ];
  const found = Object.entries(proposal).filter(([, proposed]) => proposed !== undefined);
  if (found.length === 0) lines[lines.length - 1] = 'resources: {}';
  for (const [name, proposed] of Object.entries(proposal)) {
    if (proposed === undefined)
      lines.push(`  # ${name}: no object in the org looks like it; \`handoff org package\` creates one.`);
    else lines.push(...resourceLines(name, proposed));
  }
  return `${lines.join('\n')}\n`;
}

function resourceLines(name: string, { object, fields, add, unset }: ProposedResource): string[] {
  return [
    `  ${name}:`,
    `    object: ${withReason(object)}`,
    '    fields:',
    ...Object.entries(fields).map(([field, guess]) => `      ${field}: ${withReason(guess)}`),
    ...furtherLines(add),
    ...(unset.length === 0
      ? []
      : [
          "    # The org requires these too, but the API can't carry them: give a value for all records.",
          '    # set:',
          ...unset.map((column) => `    #   ${column}: …`),
        ]),
  ];
}

function withReason({ value, why }: Guess<unknown>): string {
  const isName = typeof value === 'string' && /^(?!(true|false|null)$)[A-Za-z]\w*$/i.test(value);
  const list = Array.isArray(value) ? `[${value.join(', ')}]` : undefined;
  return `${isName ? value : (list ?? JSON.stringify(value))} # ${why}`;
}

function furtherLines(add: readonly ProposedField[]): string[] {
  const required = add.filter((field) => field.isRequired);
  const others = add.filter((field) => !field.isRequired);
  const isOpen = required.length > 0;
  return [
    ...(isOpen
      ? ['    # The org requires these in new records, so callers have to send them.', '    add:']
      : []),
    ...required.map((field) => {
      const entries = Object.entries(requiredMapping(field)).map(([key, value]) => `${key}: ${value}`);
      return `      ${field.name}: { ${entries.join(', ')} } # required in new records; \`from\` is a guess`;
    }),
    ...(others.length === 0
      ? []
      : [
          '    # More fields that the API can have. Uncomment those that partners may see or write.',
          ...(isOpen ? [] : ['    # add:']),
          ...others.map(({ name, column }) => `    #   ${name}: { field: ${column}, access: read }`),
        ]),
  ];
}
