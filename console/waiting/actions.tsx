import type { AcceptedHandoff, HandoffClient } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { Question } from '../shared/dialog.tsx';
import { Field, single } from '../shared/parts.tsx';
import { needsApproval, type Session, useSession } from '../shared/session.ts';

/** Makes a change, and tells that it is done. */
export type Act = (
  change: (handoffs: HandoffClient['handoffs']) => Promise<unknown>,
  done: string,
) => Promise<void>;

interface ActionsProps {
  handoff: AcceptedHandoff;
  act: Act;
  /** Shows what went wrong with what was done at one click. */
  show: (problem: Problem) => void;
}

/** What the consumer may do with a hand-off. */
export function Actions({ handoff, act, show }: ActionsProps): VNode {
  const [asking, ask] = useState<'reject' | 'withdraw' | undefined>();
  const { external_id: id, version } = handoff;
  // What is decided on is what the page shows.
  const ifMatch = `"${version}"`;
  const { canDecide, canRetry, canCancel } = rightsOn(handoff, useSession());
  const name = nameOf(handoff);
  const atOnce = (...change: Parameters<Act>) =>
    void act(...change).catch((error: unknown) => show(problemFrom(error)));
  const button = (text: string, onClick: () => void, look = 'plain') => (
    <button type="button" class={look} onClick={single(onClick)}>
      {text}
    </button>
  );
  return (
    <>
      <div class="buttons">
        {canDecide &&
          button(
            'Approve',
            () => atOnce((handoffs) => handoffs.approve(id, { ifMatch }), `${name} is approved.`),
            'primary',
          )}
        {canDecide && button('Reject…', () => ask('reject'))}
        {canRetry &&
          button('Retry', () => atOnce((handoffs) => handoffs.retry(id), `${name} is tried again.`))}
        {canCancel && button('Withdraw…', () => ask('withdraw'))}
      </div>
      {asking === 'reject' && <RejectQuestion handoff={handoff} act={act} onClose={() => ask(undefined)} />}
      {asking === 'withdraw' && (
        <WithdrawQuestion handoff={handoff} act={act} onClose={() => ask(undefined)} />
      )}
    </>
  );
}

function nameOf({ request, type }: AcceptedHandoff): string {
  return request?.result.name ?? `The ${type}`;
}

/** What the consumer may do with a hand-off as it is. */
function rightsOn(handoff: AcceptedHandoff, session: Session) {
  const { type, status, approval } = handoff;
  const { can, consumer } = session;
  const resource = `${type}s`;
  const isOwn = isMadeBy(handoff, consumer.id);
  const mayWrite = can(resource, 'write');
  const mayAlone = !needsApproval(consumer, resource);
  const mayDelete = can(resource, 'delete') && (isOwn || mayAlone);
  const isApproved = approval?.status === 'approved';
  const byStatus: Partial<Record<AcceptedHandoff['status'], Rights>> = {
    awaiting_approval: { canDecide: mayWrite && mayAlone && !isOwn, canCancel: isOwn ? mayWrite : mayDelete },
    failed: { canRetry: mayWrite && (mayAlone || isApproved), canCancel: mayDelete },
    accepted: { canCancel: mayDelete },
  };
  return byStatus[status] ?? {};
}

function isMadeBy({ request }: AcceptedHandoff, consumerId: string): boolean {
  return request?.created_by.consumer_id === consumerId;
}

interface Rights {
  canDecide?: boolean;
  canRetry?: boolean;
  canCancel?: boolean;
}

interface QuestionProps {
  handoff: AcceptedHandoff;
  act: Act;
  onClose: () => void;
}

/** Asks why: the consumer that asked gets the reason. */
function RejectQuestion({ handoff, act, onClose }: QuestionProps): VNode {
  const [reason, setReason] = useState('');
  const { external_id: id, version } = handoff;
  const name = nameOf(handoff);
  const reject = () =>
    act((handoffs) => handoffs.reject(id, { reason }, { ifMatch: `"${version}"` }), `${name} is rejected.`);
  return (
    <Question title={`Reject ${name}?`} action="Reject now" isDanger act={reject} onClose={onClose}>
      <Field
        label="Reason"
        value={reason}
        onInput={setReason}
        required
        maxLength={1000}
        hint="Whoever asked for it reads this."
      />
    </Question>
  );
}

function WithdrawQuestion({ handoff, act, onClose }: QuestionProps): VNode {
  const { external_id: id, type } = handoff;
  const name = nameOf(handoff);
  const withdraw = () => act((handoffs) => handoffs.cancel(id), `${name} is withdrawn.`);
  return (
    <Question title={`Withdraw ${name}?`} action="Withdraw now" isDanger act={withdraw} onClose={onClose}>
      <p>No {type} will be made of it. To have one after all, hand it off again.</p>
    </Question>
  );
}
