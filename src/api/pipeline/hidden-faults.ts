import { isFieldVisible, type VisibleFields } from '../../platform/base/call.ts';
import { type Fault, Problem } from '../../platform/base/problem.ts';
import type { StoredAnswer } from '../idempotency/keyed-request.ts';
import { problemAnswer } from './problem-answer.ts';

const hiddenFault = {
  pointer: '',
  message: "it breaks a rule about something these credentials can't see",
};

export function withoutHiddenFaults(error: unknown, visible: VisibleFields): unknown {
  if (visible === undefined || !(error instanceof Problem) || error.code !== 'crm_rejected') return error;
  const { errors = [], ...facts } = error.facts;
  const shown = errors.filter((fault) => {
    const [, name = ''] = 'pointer' in fault ? (/^#\/(?:result\/)?(\w+)/.exec(fault.pointer) ?? []) : [];
    return name !== '' && isFieldVisible(visible, name);
  });
  if (shown.length === errors.length && shown.length > 0) return error;
  const faults = [...shown, hiddenFault];
  return new Problem('crm_rejected', refusalBy(faults), { ...facts, errors: faults });
}

export function refusalBy(faults: readonly Fault[]): string {
  return `The CRM refused the record: ${faults.map(({ message }) => message).join('; ')}`;
}

/** Hides faults of a stored answer, whose caller may have seen more then. One that names no fields may be about any. */
export function withoutHiddenRefusal(answer: StoredAnswer, visible: VisibleFields): StoredAnswer {
  if (visible === undefined || answer.status !== 422) return answer;
  const { code, detail, request_id, errors } = JSON.parse(answer.body) as StoredProblem;
  if (code !== 'crm_rejected') return answer;
  const shown = withoutHiddenFaults(new Problem(code, detail, { errors: errors ?? [] }), visible);
  const { headers, body } = problemAnswer(shown as Problem, request_id, true);
  return { ...answer, headers, body };
}

interface StoredProblem {
  code: string;
  detail: string;
  request_id: string;
  errors?: Fault[];
}
