import { type Static, Type } from 'typebox';

/** What an org is like, as a file of `orgs/` says it. README, "Describe an org". */

const closed = { additionalProperties: false } as const;
const name = Type.String({ minLength: 1, maxLength: 80 });
const names = Type.Array(name, { minItems: 1 });
const value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]);
/** Rights of the integration user; with `none` it sees nothing of it. */
const access = Type.Optional(Type.Enum(['write', 'read', 'none']));
/** Triggers and rules: `control/automation-input.ts` reads them. */
const automation = Type.Optional(Type.Array(Type.Record(Type.String(), Type.Unknown())));

export const FIELD_KINDS = {
  text: ['length', 'unique', 'externalId', 'caseSensitive', 'formula', 'default'],
  textarea: ['length', 'default'],
  longtext: ['length'],
  richtext: ['length'],
  email: ['length', 'unique', 'externalId', 'caseSensitive', 'default'],
  phone: ['length', 'default'],
  url: ['length', 'default'],
  int: ['precision', 'unique', 'externalId', 'default'],
  number: ['precision', 'scale', 'unique', 'externalId', 'formula', 'default'],
  currency: ['precision', 'scale', 'formula', 'default'],
  percent: ['precision', 'scale', 'formula', 'default'],
  checkbox: ['formula', 'default'],
  date: ['formula', 'default'],
  datetime: ['formula', 'default'],
  time: ['formula', 'default'],
  picklist: ['length', 'restricted', 'values', 'default'],
  multipicklist: ['length', 'restricted', 'values', 'default'],
  combobox: ['length', 'values', 'default'],
  reference: ['referenceTo', 'relationshipName', 'children', 'lookupFilter'],
  autonumber: ['format', 'unique', 'externalId'],
  address: [],
  location: [],
} as const;

export type FieldKind = keyof typeof FIELD_KINDS;

const picklistValue = Type.Object(
  {
    value: name,
    label: Type.Optional(name),
    active: Type.Optional(Type.Boolean()),
    default: Type.Optional(Type.Boolean()),
  },
  closed,
);

const field = Type.Object(
  {
    type: Type.Enum(Object.keys(FIELD_KINDS) as FieldKind[]),
    label: Type.Optional(name),
    length: Type.Optional(Type.Integer({ minimum: 1, maximum: 131_072 })),
    precision: Type.Optional(Type.Integer({ minimum: 1, maximum: 18 })),
    scale: Type.Optional(Type.Integer({ minimum: 0, maximum: 17 })),
    required: Type.Optional(Type.Boolean()),
    unique: Type.Optional(Type.Boolean()),
    externalId: Type.Optional(Type.Boolean()),
    caseSensitive: Type.Optional(Type.Boolean()),
    default: Type.Optional(value),
    restricted: Type.Optional(Type.Boolean()),
    values: Type.Optional(Type.Array(Type.Union([name, picklistValue]), { minItems: 1 })),
    /** Read only: these fields with a space between them; empty for a formula that is not worked out. */
    formula: Type.Optional(Type.Array(name)),
    /** Of an auto-number, `Q-{000000}`. */
    format: Type.Optional(name),
    /** More than one object: a polymorphic lookup. */
    referenceTo: Type.Optional(Type.Union([name, names])),
    relationshipName: Type.Optional(name),
    /** How the parent names its children. */
    children: Type.Optional(name),
    lookupFilter: Type.Optional(
      Type.Object({ field: name, equals: value, message: Type.Optional(Type.String()) }, closed),
    ),
    access,
  },
  closed,
);

const recordType = Type.Object(
  {
    label: Type.Optional(name),
    /** The user may use it. */
    available: Type.Optional(Type.Boolean()),
    active: Type.Optional(Type.Boolean()),
    default: Type.Optional(Type.Boolean()),
    /** Fields of which it allows these values only. */
    picklists: Type.Optional(Type.Record(name, Type.Array(name))),
  },
  closed,
);

const duplicateRule = Type.Object(
  {
    name,
    /** Records are duplicates where all of these are the same; empty fields are never. */
    fields: names,
    action: Type.Enum(['alert', 'block']),
    message: Type.Optional(Type.String()),
  },
  closed,
);

const object = Type.Object(
  {
    label: Type.Optional(name),
    plural: Type.Optional(name),
    /** The first characters of its ids; made from the name if absent. */
    keyPrefix: Type.Optional(Type.String({ pattern: '^[0-9a-zA-Z]{3}$' })),
    /** Of an own object: text, if absent. */
    name: Type.Optional(
      Type.Object(
        { type: Type.Enum(['text', 'autonumber']), format: Type.Optional(name), label: Type.Optional(name) },
        closed,
      ),
    ),
    /** No owner and no recycle bin, as an object of the set-up. */
    setup: Type.Optional(Type.Boolean()),
    fields: Type.Optional(Type.Record(name, field)),
    recordTypes: Type.Optional(Type.Record(name, recordType)),
    validationRules: automation,
    triggers: automation,
    duplicateRules: Type.Optional(Type.Array(duplicateRule)),
    /** Private: the user sees the records that it owns, unless it may view all. */
    sharing: Type.Optional(Type.Enum(['public', 'private'])),
    /** View All Records, of the integration user; it has it if absent. */
    viewAll: Type.Optional(Type.Boolean()),
    /** Whether the integration user may delete records, if it may write them; true if absent. */
    deletable: Type.Optional(Type.Boolean()),
    access,
  },
  closed,
);

export const orgDescription = Type.Object(
  {
    label: Type.Optional(Type.String()),
    /** Of the integration user, and so of error texts. */
    language: Type.Optional(Type.Enum(['en', 'de'])),
    /** The oldest and the newest version of the API, as numbers. */
    oldestVersion: Type.Optional(Type.Integer({ minimum: 31, maximum: 99 })),
    newestVersion: Type.Optional(Type.Integer({ minimum: 31, maximum: 99 })),
    /** Whether `login.` and `test.` hosts still sign this app in. */
    loginHosts: Type.Optional(Type.Enum(['refused', 'accepted'])),
    /** Several currencies; the default is that of the integration user. */
    currencies: Type.Optional(
      Type.Object({ default: name, active: names, inactive: Type.Optional(Type.Array(name)) }, closed),
    ),
    /** Folder of a source-format package that is deployed, from the file's own. */
    package: Type.Optional(Type.String()),
    /** Which object has the seeded members, and in which fields. */
    members: Type.Optional(
      Type.Object(
        {
          object: name,
          key: name,
          firstName: name,
          lastName: name,
          email: name,
          phone: name,
          values: Type.Optional(Type.Record(name, value)),
        },
        closed,
      ),
    ),
    objects: Type.Optional(Type.Record(name, object)),
  },
  closed,
);

export type OrgDescription = Static<typeof orgDescription>;
export type ObjectDescription = Static<typeof object>;
export type FieldDescription = Static<typeof field>;
export type DuplicateRule = Static<typeof duplicateRule>;
export type MembersDescription = NonNullable<OrgDescription['members']>;

/** What is wrong in one part of a description. */
export interface DescriptionFault {
  /** Names of members and numbers of items that lead there. */
  path: string[];
  message: string;
}
