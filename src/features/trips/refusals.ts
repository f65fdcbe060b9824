import type { StoredAnswer } from '../../api/idempotency/keyed-request.ts';
import { refusalBy } from '../../api/pipeline/answer.ts';
import { mostErrors } from '../../api/pipeline/schema-faults.ts';
import type { Call } from '../../platform/base/call.ts';
import { type Fault, Problem, type ProblemCode } from '../../platform/base/problem.ts';
import type { HandoffCrm, HandoffType } from '../handoff/handoff.ts';
import { withoutHidden } from '../handoff/routes/handoff.ts';

export function isPassing({ status, facts }: Problem): boolean {
  return status >= 500 || facts.retryAfter !== undefined || facts.outcomeUnknown === true;
}

export function placed(error: unknown, index: number): unknown {
  if (!(error instanceof Problem)) return error;
  const { code, message, facts } = error;
  const { errors = [{ pointer: '', message: withId(error) }] } = facts;
  const isOfBody = code === 'invalid_request' || code === 'member_not_found';
  const inBody = errors.map((fault) => placedFault(fault, index, isOfBody));
  return new Problem(code, message, { ...facts, errors: inBody });
}

function withId({ message, facts: { outcomeUnknown, externalId } }: Problem): string {
  return outcomeUnknown && externalId ? `${message} Its External ID would be ${externalId}.` : message;
}

const sharedFields = /^#\/(trip_id|member_id)$/;

/** `isOfBody`: what all items share is at fault itself, not the item that it is refused for. */
function placedFault(fault: Fault, index: number, isOfBody: boolean): Fault {
  if (!('pointer' in fault)) return fault;
  const [, shared] = sharedFields.exec(fault.pointer) ?? [];
  if (shared === undefined)
    return { ...fault, pointer: `#/items/${index}${fault.pointer.replace(/^#/, '')}` };
  if (isOfBody) return fault;
  return { pointer: `#/items/${index}`, message: `${shared} ${fault.message}` };
}

/**
 * Problems of items as that of the whole trip: with the first one's code, 422 where all of them are refusals; otherwise the first that
 * may pass. `isChanged`: something was made all the same.
 */
export function togetherOf(problems: readonly Problem[], isChanged = false): Problem {
  const passing = problems.find(isPassing);
  const { code, message, facts } = (passing ?? problems[0]) as Problem;
  const { externalId: _, errors: __, ...others } = facts;
  const isUnknown = isChanged || problems.some((problem) => problem.facts.outcomeUnknown);
  const errors = unique(problems.flatMap((problem) => problem.facts.errors ?? []));
  return new Problem(code, message, {
    ...others,
    ...(passing === undefined && { status: 422 }),
    ...(isUnknown && { outcomeUnknown: true }),
    ...(errors.length > 0 && { errors: errors.slice(0, mostErrors) }),
  });
}

function unique(faults: readonly Fault[]): Fault[] {
  return [...new Map(faults.map((fault) => [JSON.stringify(fault), fault])).values()];
}

interface Document {
  code: ProblemCode;
  detail: string;
  errors?: Fault[];
}

interface Seen {
  resources: HandoffCrm['resources'];
  types: readonly HandoffType[];
  call: Call;
}

export function withoutHiddenStored(answer: StoredAnswer, seen: Seen): StoredAnswer {
  const document = JSON.parse(answer.body) as Document & { items?: { problem?: Document }[] };
  const shown =
    document.items === undefined
      ? shownDocument(document, seen)
      : {
          ...document,
          items: document.items.map((item) =>
            item.problem === undefined ? item : { ...item, problem: shownDocument(item.problem, seen) },
          ),
        };
  return { ...answer, body: JSON.stringify(shown) };
}

function shownDocument(document: Document, seen: Seen): Document {
  const { code, detail, errors } = document;
  if (errors === undefined) return document;
  const shown = errors.map((fault) => shownFault(fault, seen));
  const isWhole = shown.every((fault, index) => fault === errors[index]);
  if (isWhole) return document;
  const faults = unique(shown);
  return { ...document, detail: code === 'crm_rejected' ? refusalBy(faults) : detail, errors: faults };
}

const ofItem = /^#\/items\/(\d+)(.*)$/;
const ofOffer = /^\/(?:type|valid_until|reference|on_repeat)$/;

/** Several refusals have one code: each is taken for one of the CRM. */
function shownFault(fault: Fault, { resources, types, call }: Seen): Fault {
  const [, index, rest = ''] = ('pointer' in fault && ofItem.exec(fault.pointer)) || [];
  const type = types[Number(index)];
  if (type === undefined || ofOffer.test(rest)) return fault;
  const own = { ...fault, pointer: rest && `#${rest}` };
  const problem = new Problem('crm_rejected', '', { errors: [own] });
  const [shown] = (withoutHidden(problem, resources[type], call) as Problem).facts.errors ?? [];
  return shown === undefined || shown === own ? fault : placedFault(shown, Number(index), false);
}
