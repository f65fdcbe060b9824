import { Problem } from '../base/problem.ts';
import type { StoredAnswer } from '../idempotency/claims-table.ts';
import { isResting, type Plan } from './plan.ts';
import type { Outcome } from './plans-table.ts';
import { type Parts, type ReservationView, viewOf } from './view.ts';

/** Answers as they leave the service, so that the job can store what the request would have answered. */
export interface Answers {
  made(view: ReservationView): StoredAnswer;
  refused(problem: Problem, requestId: string): StoredAnswer;
  cancelled(): StoredAnswer;
}

/** What a keyed request gets when its plan has come to this. */
export function answerTo(answers: Answers, plan: Plan, outcome: Outcome): StoredAnswer {
  if (outcome === 'made') return answers.made(viewOf(plan, knownParts(plan)));
  if (outcome === 'cancelled') return answers.cancelled();
  return answers.refused(explain(plan, outcome), plan.owed?.requestId ?? '');
}

/** As they were just made; nobody needs to ask. */
function knownParts(plan: Plan): Parts {
  return { booking: isResting(plan) ? plan.state : 'pending', table: plan.table?.status };
}

function explain({ refusal, attention }: Plan, outcome: 'refused' | 'not_cancelled'): Problem {
  if (outcome === 'not_cancelled' && attention !== undefined) {
    return new Problem(
      'crm_rejected',
      'The table is cancelled, but the CRM refused to note it. The operator has to look at it.',
    );
  }
  const { code = 'partner_rejected', detail = 'The partner refused.', partnerCause } = refusal ?? {};
  const rest =
    attention === undefined
      ? ''
      : ' Its note in the CRM could not be taken back; the operator has to look at it.';
  return new Problem(code, detail + rest, partnerCause === undefined ? {} : { partnerCause });
}
