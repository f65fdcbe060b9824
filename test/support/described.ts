import type { Field, Resource } from '../../src/records/resource.ts';

/** What the org says of a field, as far as it differs from what fits; null: it says nothing. */
export type Changes = Readonly<Record<string, object | null>>;

const types: Partial<Record<Field['kind'], object>> = {
  uuid: { type: 'string', length: 36 },
  text: { type: 'string', length: 255 },
  boolean: { type: 'boolean', length: 0 },
  json: { type: 'textarea', length: 131_072, filterable: false },
  timestamp: {
    type: 'datetime',
    createable: false,
    updateable: false,
    nillable: false,
    defaultedOnCreate: true,
  },
};

/** The CRM's description of an object that fits the resource, with these changes by column. */
export function describedFor(resource: Resource, changes: Changes = {}, memberObject = 'Contact') {
  const columns = Object.entries(resource.fields).flatMap(([name, field]) => {
    const { lookupColumn, path, continuations = [] } = field.crm;
    const first = lookupColumn ?? path;
    const own = {
      ...types[field.kind],
      ...((name === 'id' || field.indexed) && { externalId: true, unique: name === 'id' }),
      ...(lookupColumn && {
        ...{ type: 'reference', length: 18, referenceTo: [memberObject] },
        relationshipName: path.split('.')[0],
      }),
    };
    return [first, ...continuations].map((column) => [column, own] as const);
  });
  const fields = new Map<string, object | null>([
    ['Id', { type: 'id', createable: false, updateable: false, nillable: false, defaultedOnCreate: true }],
    ...columns,
  ]);
  for (const [column, change] of Object.entries(changes))
    fields.set(column, change && { ...fields.get(column), ...change });
  return {
    ...{ name: resource.crmObject, queryable: true, createable: true, updateable: true },
    fields: [...fields].flatMap(([name, own]) => (own === null ? [] : [{ ...usual, name, ...own }])),
    recordTypeInfos: [] as object[],
  };
}

const usual = {
  ...{ type: 'string', length: 255, precision: 0, scale: 0, digits: 0 },
  ...{ createable: true, updateable: true, nillable: true, defaultedOnCreate: false, filterable: true },
  ...{ unique: false, externalId: false, restrictedPicklist: false, picklistValues: [] },
};
