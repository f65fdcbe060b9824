import { createHash } from 'node:crypto';
import type { OrgDescription } from './description.ts';
import { makeId } from './ids.ts';
import type { ObjectType, Row, Schema } from './schema.ts';

/** What the set-up is made from. */
interface SetUp {
  user: { id: string; username: string; name: string };
  schema: Schema;
  description: OrgDescription;
}

const CREATED = '2024-01-01T00:00:00.000+0000';

function userRow({ user }: SetUp): Row {
  const [first, ...rest] = user.name.split(' ');
  return {
    Id: user.id,
    Username: user.username,
    LastName: rest.length === 0 ? user.name : rest.join(' '),
    ...(rest.length === 0 || first === undefined ? {} : { FirstName: first }),
    IsActive: true,
  };
}

function recordTypeRows({ schema }: SetUp): Row[] {
  return schema.objects.flatMap(({ name, recordTypes }) =>
    recordTypes.map(({ id, label, developerName, active }) => ({
      Id: id,
      Name: label,
      DeveloperName: developerName,
      SobjectType: name,
      IsActive: active,
    })),
  );
}

function loginRows({ user }: SetUp): Row[] {
  return [
    { Id: makeId('0Ya', 1), UserId: user.id, LoginTime: CREATED, SourceIp: '127.0.0.1', Status: 'Success' },
  ];
}

const permissionSet = makeId('0PS', 1);

function assignmentRows({ user }: SetUp): Row[] {
  return [{ Id: makeId('0Pa', 1), AssigneeId: user.id, PermissionSetId: permissionSet }];
}

function objectPermissionRows({ schema }: SetUp): Row[] {
  return schema.objects
    .filter(({ setup }) => !setup)
    .map(({ name, viewAll }) => ({
      Id: makeId('110', createHash('sha256').update(name).digest().readUInt32BE(0)),
      ParentId: permissionSet,
      SobjectType: name,
      PermissionsRead: true,
      PermissionsViewAllRecords: viewAll,
    }));
}

function currencyRows({ description: { currencies } }: SetUp): Row[] {
  if (currencies === undefined) return [];
  const { default: standard, active, inactive = [] } = currencies;
  return [...active, ...inactive].map((code) => ({
    Id: makeId('01L', createHash('sha256').update(code).digest().readUInt16BE(0)),
    IsoCode: code,
    IsActive: active.includes(code),
    IsCorporate: code === standard,
  }));
}

/** The records of an object of the set-up: the user, its last login and its rights, the record types, the currencies. */
export function setupRows(org: SetUp, type: ObjectType): Row[] {
  const rows: Record<string, () => Row[]> = {
    User: () => [userRow(org)],
    LoginHistory: () => loginRows(org),
    PermissionSetAssignment: () => assignmentRows(org),
    ObjectPermissions: () => objectPermissionRows(org),
    RecordType: () => recordTypeRows(org),
    CurrencyType: () => currencyRows(org),
  };
  const stamps = {
    CreatedDate: CREATED,
    LastModifiedDate: CREATED,
    SystemModstamp: CREATED,
    CreatedById: org.user.id,
    LastModifiedById: org.user.id,
  };
  return (rows[type.name]?.() ?? []).map((row) => ({ ...stamps, ...row }));
}
