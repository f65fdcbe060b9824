import { type Claim, recordInUse } from '../../../api/idempotency/ledger.ts';
import { isConditional, requireMatch, tagHeader } from '../../../api/pipeline/request-head.ts';
import { defineRoute, type Route, type Tool } from '../../../api/route.ts';
import { sleep } from '../../../platform/base/chance.ts';
import { crmProblems, Problem } from '../../../platform/base/problem.ts';
import { hasValues, readFieldValues } from '../../../records/field-values.ts';
import type { FieldValues, StoredRecord } from '../../../records/records.ts';
import { changeSchema, representationSchema } from '../../../records/representation.ts';
import type { Resource } from '../../../records/resource.ts';
import * as shared from './context.ts';

const exampleChange = { name: 'Hotel Miramar, Málaga: suite with sea view, 4 nights' };

export function changeRoute(context: shared.RecordsContext): Route {
  const { resource, records, requireFree } = context;
  return defineRoute({
    method: 'PATCH',
    path: `/v1/${resource.collection}/:id`,
    operationId: shared.operationId('change', resource),
    tag: shared.tags[resource.collection],
    summary: shared.titled('Change', resource),
    description: shared.ifMatchDescription,
    permission: { resource: resource.collection, action: 'write' },
    idempotencyKey: 'required',
    requested: { about: shared.subjects(resource) },
    conditional: 'If-Match',
    tool: changeTool(resource),
    overwrites: (params) => shared.recordName(resource, shared.idOf(params)),
    request: { params: shared.idParams('id', resource), body: changeSchema(resource) },
    requestExample: exampleChange,
    answers: {
      200: {
        description: `The ${resource.name} as it is now.`,
        schema: representationSchema(context.withMember ?? resource),
        said: { ...exampleChange, updated_at: '2027-03-02T17:20:41.000Z' },
        headers: tagHeader,
      },
    },
    problems: [
      ...(['not_found', 'member_not_found', 'details_too_large', 'crm_rejected', 'conflict'] as const),
      ...crmProblems,
    ],
    ...shared.byFields(context),
    checkSeen: shared.checkSeen(context),
    prepare: (body, bodyText) => readFieldValues(resource, body, bodyText),
    admit: (call) => shared.admitShown(context, call),
    async handle({ params, prepared: values, headers: { 'if-match': ifMatch }, call, claim }) {
      const id = shared.idOf(params);
      const conditional = isConditional(ifMatch);
      await requireFree(id, call);
      if (conditional) await shared.leaseVisible(context, id, claim, call);
      const find = () => records.find(resource, id, call);
      const answer = (shown: StoredRecord) => shared.recordAnswer(200, context, shown, call);
      for (const pauseMs of pausesMs) {
        const record = await (conditional ? findAfterLastSecond(find, () => records.now(call)) : find());
        if (!record) throw shared.recordNotFound(resource);
        const tags = shared.tagsOf(context, record, call);
        if (claim.before === undefined) requireMatch(ifMatch, tags.shown);
        else if (isDone(resource, claim, record, { values, state: tags.state })) return answer(record);
        if (!conditional) await shared.nameUnconditional(context, id, claim, call);
        if (!(await claim.rememberBefore(tags.state))) {
          await sleep(pauseMs);
          continue;
        }
        await claim.confirmOwnership();
        const changed = await records.updateAndRead(resource, record, values, call);
        if (!changed) throw shared.recordNotFound(resource);
        return answer(changed);
      }
      throw recordInUse();
    },
  });
}

function changeTool({ name }: Resource): Tool {
  return {
    name: `update_${name}`,
    description:
      `Change fields of a ${name}: each one that is given replaces its whole value, and the old one isn't kept. Read it ` +
      'first. Costs two CRM calls.',
  };
}

/** Whether an earlier run under this claim wrote it, or sent a write whose answer was lost. Throws `conflict`. */
function isDone(
  resource: Resource,
  { before }: Pick<Claim, 'before'>,
  record: StoredRecord,
  { values, state }: { values: FieldValues; state: string },
): boolean {
  if (hasValues(resource, record.values, values)) return true;
  if (before !== state) throw changedMeanwhile();
  return false;
}

/** Pauses of a change while a conditional write has its record: that takes two calls, unless its owner has died. */
const pausesMs = [50, 100, 200, 400, 800, 1600];

const resolutionMs = 1000;

/**
 * The record, as a conditional change may write it. Within the second of its last change a record could get its old
 * values back, and with them its old tag, which was used before. So the change waits until that second is over: what it
 * writes then has a later date, and no tag ever returns.
 */
async function findAfterLastSecond(
  find: () => Promise<StoredRecord | undefined>,
  now: () => number,
): Promise<StoredRecord | undefined> {
  const record = await find();
  const restMs = Date.parse(record?.values['updated_at'] ?? '') + resolutionMs - now();
  if (!(restMs > 0)) return record;
  // A whole second is enough, however far the clocks are apart.
  await sleep(Math.min(restMs, resolutionMs));
  return find();
}

function changedMeanwhile(): Problem {
  const detail =
    'The record was changed by someone else while this change was interrupted. Read it and decide again.';
  return new Problem('conflict', detail);
}
