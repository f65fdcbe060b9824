import {
  type CommonParts,
  type ControlCall,
  type ControlHandler,
  commonHandlers,
  createControlApi,
  type Handlers,
  hasValues,
} from '../../shared/control-api.ts';
import { ControlError } from '../../shared/control-error.ts';
import type { Sessions } from '../oauth/sessions.ts';
import { readAutomation } from '../org/automation-input.ts';
import { deleteRow, insertRow, undeleteRow, updateRow } from '../org/dml.ts';
import { isPlainObject } from '../org/interpret.ts';
import type { Org } from '../org/org.ts';
import { type ObjectType, type Row, showField } from '../org/schema.ts';
import { type FaultInput, readFaultInput } from './fault-input.ts';
import { changeSettings, type Settings } from './settings.ts';

export interface ControlParts extends CommonParts<FaultInput> {
  org: Org;
  sessions: Sessions;
  settings: Settings;
  onSettings(): void;
  /** Merges a change into the org's description (RFC 7396), and makes the org what it then says. */
  changeOrg(patch: unknown): void;
  /** Back to the state of the start; `records: false` keeps the records. */
  reset(records: boolean): void;
}

function typeOf(parts: ControlParts, call: ControlCall): ObjectType {
  const type = parts.org.schema.find(call.path[1] ?? '');
  if (type === undefined) throw new ControlError(404, `no object ${call.path[1]}`);
  return type;
}

function showRow(type: ObjectType, row: Row): object {
  const fields = [...type.fields.values()].map((field) => [field.name, showField(row, field) ?? null]);
  return Object.fromEntries(fields) as object;
}

function matchingRows(parts: ControlParts, call: ControlCall, type: ObjectType): Row[] {
  return [...parts.org.store.table(type).rows.values()].filter((row) => hasValues(row, call));
}

function listRecords(parts: ControlParts, call: ControlCall): object[] {
  const type = typeOf(parts, call);
  return matchingRows(parts, call, type).map((row) => showRow(type, row));
}

/** Raw: system fields such as CreatedDate may be given too. All of them or none are written. */
function insertRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const bodies: unknown[] = [call.body].flat();
  const ids = parts.org.store.transaction(() =>
    bodies.map((body) => {
      if (!isPlainObject(body)) throw new ControlError(400, 'each record must be a JSON object');
      return insertRow(parts.org, type, body, { raw: true }).Id;
    }),
  );
  return { ids };
}

/** Raw, as `insertRecords`: with an earlier SystemModstamp it is a change that became visible late. */
function updateRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const { body } = call;
  if (!isPlainObject(body)) throw new ControlError(400, 'the change must be a JSON object');
  const rows = matchingRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) updateRow(parts.org, type, row, body, { raw: true });
  });
  return { updated: rows.length };
}

/** Puts records into the recycle bin, as somebody in the org does. */
function binRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const rows = matchingRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) deleteRow(parts.org, type, row, { raw: true });
  });
  return { deleted: rows.length };
}

function deletedRows(parts: ControlParts, call: ControlCall, type: ObjectType): Row[] {
  const deleted = [...parts.org.store.table(type).deleted.values()].filter((row) => row !== undefined);
  return deleted.filter((row) => hasValues(row, call));
}

function listDeleted(parts: ControlParts, call: ControlCall): object[] {
  const type = typeOf(parts, call);
  return deletedRows(parts, call, type).map((row) => showRow(type, row));
}

/** Takes records out of the recycle bin, which the REST API of an org cannot do. */
function undeleteRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const rows = deletedRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) undeleteRow(parts.org, type, row);
  });
  return { undeleted: rows.length };
}

function deleteRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const rows = matchingRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) parts.org.store.write(type, row, undefined);
  });
  return { deleted: rows.length };
}

/** Removes matching records from the recycle bin, without a trace. */
function purgeRecords(parts: ControlParts, call: ControlCall): object {
  const type = typeOf(parts, call);
  const rows = deletedRows(parts, call, type);
  parts.org.store.transaction(() => {
    for (const row of rows) parts.org.store.write(type, row, undefined);
  });
  return { purged: rows.length };
}

function addAutomation({ org }: ControlParts, { body }: ControlCall): object {
  org.automation.add(readAutomation(org.schema, body));
  return org.automation.view();
}

function replaceAutomation({ org }: ControlParts, { body }: ControlCall): object {
  const declaration = readAutomation(org.schema, body);
  org.automation.clear();
  org.automation.add(declaration);
  return org.automation.view();
}

function removeAutomation({ org }: ControlParts, { path }: ControlCall): object {
  const removed = org.automation.remove(path[1] ?? '');
  if (removed === 0) throw new ControlError(404, `no automation ${path[1]}`);
  return { removed };
}

function reset(parts: ControlParts, call: ControlCall): object {
  parts.reset(!(isPlainObject(call.body) && call.body.records === false));
  return {};
}

function settings(parts: ControlParts, call: ControlCall): object {
  changeSettings(parts.settings, call.body);
  parts.onSettings();
  return parts.settings;
}

function changeOrg(parts: ControlParts, { body }: ControlCall): object {
  parts.changeOrg(body);
  return parts.org.description;
}

const HANDLERS: Handlers<ControlParts> = {
  ...commonHandlers(readFaultInput),
  'POST tokens/revoke': (parts) => ({ revoked: parts.sessions.revokeAll() }),
  'POST reset': reset,
  'GET automation': ({ org }) => org.automation.view(),
  'PUT automation': replaceAutomation,
  'POST automation': addAutomation,
  'DELETE automation': ({ org }) => {
    org.automation.clear();
    return {};
  },
  'DELETE automation/*': removeAutomation,
  'GET org': ({ org }) => org.description,
  'PATCH org': changeOrg,
  'GET settings': (parts) => parts.settings,
  'POST settings': settings,
  'PATCH settings': settings,
  'GET counters': (parts) => ({ ...parts.activity.view(), tokens: parts.sessions.count() }),
  'GET records/*': listRecords,
  'GET records/*/deleted': listDeleted,
  'POST records/*': insertRecords,
  'PATCH records/*': updateRecords,
  'POST records/*/delete': binRecords,
  'POST records/*/undelete': undeleteRecords,
  'POST records/*/purge': purgeRecords,
  'DELETE records/*': deleteRecords,
};

/** Answers `/simulator/…`, by which tests steer the org and look into it. No part of Salesforce. */
export function createControl(parts: ControlParts): ControlHandler {
  return createControlApi(parts, HANDLERS);
}
