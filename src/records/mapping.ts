import { type Static, type TSchema, Type } from 'typebox';
import { member as defaultMember } from './members.ts';
import { OrgFit } from './org-fit.ts';
import { booking as defaultBooking, quote as defaultQuote } from './quotes-and-bookings.ts';
import {
  added,
  type Field,
  lookupColumns,
  type OwnerRule,
  ownerMatches,
  type Resource,
  schemaOfAllowed,
} from './resource.ts';

/*
 * A mapping says under which names an org has what the API speaks of. It is laid over the declarations of the package;
 * all else follows from the result, as it does without a mapping.
 */

const identifier = '^[A-Za-z](?:_{0,2}[A-Za-z0-9])*$';
const named = (description: string) =>
  Type.String({ pattern: identifier, minLength: 1, maxLength: 80, description });

const object = named('the API name of an object, such as Travel_Offer__c');
const column = named('the API name of a field, such as Trip_Ref__c');
const relationship = named('the name of the relationship to the member, such as Traveller__r');
const columns = Type.Union([column, Type.Array(column, { minItems: 1, maxItems: 20 })], {
  description: 'the API name of a long text field, or a list of 1 to 20 of them',
});
const orNull = (schema: TSchema & { description?: string }) =>
  Type.Union([schema, Type.Null()], { description: `${schema.description}, or null where the org has none` });

const standard = ['created_at', 'updated_at'];
const needed = ['id', 'trip_id', 'member_id', 'name', 'details'];

function columnSchema(name: string): TSchema {
  if (name === 'member_id') return relationship;
  if (name === 'details') return columns;
  return needed.includes(name) ? column : orNull(column);
}

function fieldsSchema(resource: Resource) {
  const names = Object.keys(resource.fields).filter((name) => !standard.includes(name));
  const entries = names.map((name) => {
    // The member's own name is no need.
    const isMembers = resource.name === 'member' && name !== 'id';
    return [name, Type.Optional(isMembers ? orNull(column) : columnSchema(name))] as const;
  });
  return Type.Object(Object.fromEntries(entries), {
    additionalProperties: false,
    description: 'the fields of the API that have another name in this org',
  });
}

const constant = Type.Union(
  [
    Type.String({ minLength: 1, maxLength: 255 }),
    Type.Number(),
    Type.Boolean(),
    Type.Object(
      { recordType: Type.String({ pattern: identifier, maxLength: 80 }) },
      { additionalProperties: false },
    ),
  ],
  { description: 'a text, a number, true or false, or {recordType: <developer name>}' },
);

const description = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'a text of 1 to 500 characters',
});
const yesOrNo = Type.Boolean({ description: 'true or false' });
const readable = { field: column, description: Type.Optional(description), filter: Type.Optional(yesOrNo) };
const addedToMember = Type.Object(
  { ...readable, access: Type.Optional(Type.Enum(['read'], { description: 'read' })) },
  { additionalProperties: false, description: 'a further field: {field, access, description, filter}' },
);
const addedToRecord = Type.Object(
  {
    ...readable,
    access: Type.Enum(['read', 'write'], { description: 'read or write' }),
    required: Type.Optional(yesOrNo),
    from: Type.Optional(
      Type.String({
        pattern: '^(/([^~/]|~[01])*)+$',
        maxLength: 500,
        description: "a JSON Pointer into the hand-off's body, such as /result/details/checkIn",
      }),
    ),
  },
  {
    additionalProperties: false,
    description: 'a further field: {field, access, required, description, filter, from}',
  },
);
const addedNames = '^[a-z][a-z0-9]*(_[a-z0-9]+)*$';
const closed = { additionalProperties: false };

function addSchema<S extends TSchema>(of: S) {
  return Type.Record(Type.String({ pattern: addedNames, maxLength: 40 }), of, {
    ...closed,
    maxProperties: 200,
    description: 'further fields of the API by their names in snake_case, at most 200',
  });
}

const set = Type.Record(Type.String({ pattern: identifier }), constant, {
  ...closed,
  maxProperties: 50,
  description: 'constants by the API name of a field, at most 50, written into each new record',
});

const owner = Type.Object(
  {
    match: Type.Enum(ownerMatches, { description: ownerMatches.join(', ') }),
    else: Type.Optional(
      Type.Union(
        [
          Type.Object(
            { queue: Type.String({ pattern: identifier, maxLength: 80 }) },
            { additionalProperties: false },
          ),
          Type.Object(
            { user: Type.String({ pattern: '^\\S+$', maxLength: 80 }) },
            { additionalProperties: false },
          ),
        ],
        { description: '{queue: <developer name>} or {user: <user name>}' },
      ),
    ),
  },
  { additionalProperties: false, description: 'who owns new records: {match, else}' },
);

const recordSchema = (resource: Resource) =>
  Type.Object(
    {
      object: Type.Optional(object),
      fields: Type.Optional(fieldsSchema(resource)),
      set: Type.Optional(set),
      add: Type.Optional(addSchema(addedToRecord)),
      owner: Type.Optional(owner),
    },
    { ...closed, description: 'how the org has this resource: {object, fields, set, add, owner}' },
  );

/** Schema of the mapping file; `docs/mapping.schema.json` is written from it. */
export const mappingSchema = Type.Object(
  {
    version: Type.Literal(1, { description: '1' }),
    resources: Type.Object(
      {
        quote: Type.Optional(recordSchema(defaultQuote)),
        booking: Type.Optional(recordSchema(defaultBooking)),
        member: Type.Optional(
          Type.Object(
            {
              object: Type.Optional(object),
              fields: Type.Optional(fieldsSchema(defaultMember)),
              add: Type.Optional(addSchema(addedToMember)),
            },
            { ...closed, description: 'how the org has members: {object, fields, add}' },
          ),
        ),
      },
      { ...closed, description: 'the resources quote, booking and member' },
    ),
  },
  { ...closed, title: 'Mapping of Handoff Gateway', description: 'a mapping: {version: 1, resources}' },
);

export type Mapping = Static<typeof mappingSchema>;

export interface ResourceMapping {
  object?: string;
  fields?: Record<string, string | string[] | null>;
  set?: Resource['constants'];
  add?: Record<string, AddedMapping>;
  owner?: OwnerRule;
}

interface AddedMapping {
  field: string;
  access?: 'read' | 'write';
  description?: string;
  required?: boolean;
  filter?: boolean;
  from?: string;
}

export interface Resources {
  member: Resource & { name: 'member'; collection: 'members' };
  quote: Resource & { name: 'quote'; collection: 'quotes' };
  booking: Resource & { name: 'booking'; collection: 'bookings' };
}

export function listOf({ member, quote, booking }: Resources) {
  return [member, quote, booking] as const;
}

/**
 * The declarations, made once at start: those of the package with the mapping laid over them. `ownerMatch`: where there is no
 * mapping.
 */
export function resourcesOf(mapping?: Mapping, ownerMatch?: OwnerRule['match']): Resources {
  const usual = ownerMatch && { owner: { match: ownerMatch } };
  const {
    quote = usual,
    booking = usual,
    member,
  } = (mapping?.resources ?? {}) as Record<string, ResourceMapping | undefined>;
  const members = mapped(defaultMember, member, '');
  const key = members.fields['id']?.crm.path ?? '';
  return {
    member: members,
    quote: mapped(defaultQuote, quote, key),
    booking: mapped(defaultBooking, booking, key),
  };
}

function mapped<R extends Resource>(resource: R, mapping: ResourceMapping = {}, memberKey: string): R {
  const crmObject = mapping.object ?? resource.crmObject;
  const own = Object.entries(resource.fields).map(
    ([name, field]) => [name, mappedField(field, columnFor(name, mapping), memberKey)] as const,
  );
  const further = Object.entries(mapping.add ?? {}).map(
    ([name, one]) => [name, addedField(name, one)] as const,
  );
  const fit = new OrgFit(crmObject);
  const fields = Object.fromEntries(inOrder([...own, ...further])) as R['fields'];
  fit.set(untyped(fields));
  const constants = mapping.set && Object.keys(mapping.set).length > 0 ? { constants: mapping.set } : {};
  return {
    ...resource,
    crmObject,
    fields,
    ...constants,
    ...(mapping.owner && { owner: mapping.owner }),
    fit,
  };
}

function withAllowedValues(field: Field): Field {
  if (field.kind === 'text' && field.writable)
    field.schema = schemaOfAllowed(field.schema, () => field.values);
  return field;
}

function inOrder(entries: (readonly [string, Field])[]): (readonly [string, Field])[] {
  const isLast = ([name, field]: readonly [string, Field]) =>
    standard.includes(name) || field.within !== undefined;
  return [...entries.filter((entry) => !isLast(entry)), ...entries.filter(isLast)];
}

/** Where the actor has a column of another name, or none, the package's column for the proof of it is not there either. */
function columnFor(name: string, { fields = {} }: Pick<ResourceMapping, 'fields'>) {
  return name === 'verified' && fields['actor'] !== undefined ? (fields[name] ?? null) : fields[name];
}

function mappedField(field: Field, to: string | string[] | null | undefined, memberKey: string): Field {
  if (to === null) return { ...field, isAbsent: true, filter: false };
  if (field.crm.lookupColumn !== undefined) {
    const relation = typeof to === 'string' ? to : (field.crm.path.split('.')[0] ?? '');
    return { ...field, crm: lookupColumns(relation, memberKey) };
  }
  if (to === undefined) return withAllowedValues({ ...field });
  const [path = '', ...continuations] = [to].flat();
  if (field.columns === undefined) return withAllowedValues({ ...field, crm: { path } });
  const crm = { path, ...(continuations.length > 0 && { continuations }) };
  return { ...field, crm, columns: { ...field.columns, count: 1 + continuations.length } };
}

function addedField(
  name: string,
  { field, access, description: text, required, filter, from }: AddedMapping,
): Field {
  return added(field, {
    description: text ?? `The field ${name} of this org.`,
    writable: access === 'write',
    required: required === true,
    filter: filter === true,
    ...(from !== undefined && { from: pointerParts(from) }),
  });
}

/** The parts of a JSON Pointer (RFC 6901). */
export function pointerParts(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function untyped(fields: Resource['fields']) {
  return Object.entries(fields).flatMap(([name, { kind, crm }]) =>
    kind === 'unknown'
      ? [
          {
            kind: 'mismatch' as const,
            name,
            column: crm.path,
            problem: "has a type that isn't known before the CRM was asked",
            needs: everything,
          },
        ]
      : [],
  );
}

const everything = ['read', 'write', 'filter'] as const;
