import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { problemFrom } from '../shared/api.ts';
import { handoffName } from '../shared/approvals.ts';
import { Question } from '../shared/dialog.tsx';
import { Field, single } from '../shared/parts.tsx';
import { needsApproval, type Session, useSession } from '../shared/session.ts';
import { useNow } from '../shared/time.tsx';
import type { Act, Decisions } from './use-decisions.ts';

interface ActionsProps {
  handoff: AcceptedHandoff;
  decisions: Decisions;
  /** Somebody has decided: the next one is to be looked at. */
  onDecided?: (handoff: AcceptedHandoff) => void;
}

/** A key presses the button that names it in `aria-keyshortcuts`. */
export function Actions({ handoff, decisions: { act, ask, show }, onDecided }: ActionsProps): VNode {
  const session = useSession();
  const { external_id: id } = handoff;
  const { canDecide, canRetry, canCancel } = rightsOn(handoff, session);
  const approving = session.approvals.stateOf(id);
  const approve = () => {
    session.approvals.approve(handoff);
    onDecided?.(handoff);
  };
  const retry = () =>
    void act((handoffs) => handoffs.retry(id), `Retrying ${handoffName(handoff)}.`).catch((error: unknown) =>
      show(problemFrom(error)),
    );
  if (approving) return <Undo id={id} until={approving.undoUntil} />;
  return (
    <div class="buttons" tabindex={-1}>
      {canDecide && (
        <button key="approve" type="button" class="primary" aria-keyshortcuts="A" onClick={single(approve)}>
          Approve
        </button>
      )}
      {canDecide && (
        <button
          key="reject"
          type="button"
          class="plain"
          aria-keyshortcuts="R"
          onClick={single(() => ask({ what: 'reject', handoff }))}
        >
          Reject…
        </button>
      )}
      {canRetry && (
        <button key="retry" type="button" class="plain" onClick={single(retry)}>
          Retry
        </button>
      )}
      {canCancel && (
        <button
          key="withdraw"
          type="button"
          class="plain"
          onClick={single(() => ask({ what: 'withdraw', handoff }))}
        >
          Withdraw…
        </button>
      )}
    </div>
  );
}

/** Stands beside what it is about: a row may go while somebody types. */
export function DecisionQuestion({
  decisions: { act, asked, ask },
  onDecided,
}: Omit<ActionsProps, 'handoff'>): VNode | null {
  if (asked === undefined) return null;
  const { what, handoff } = asked;
  const end: Act = async (change, done) => {
    await act(change, done);
    // First: nothing beside an open dialog can have the focus.
    ask(undefined);
    onDecided?.(handoff);
  };
  const question = { handoff, act: end, onClose: () => ask(undefined) };
  return what === 'reject' ? <RejectQuestion {...question} /> : <WithdrawQuestion {...question} />;
}

/** In place of the buttons, while an approval can be taken back or is on its way. */
function Undo({ id, until }: { id: string; until: number | undefined }): VNode {
  const { approvals } = useSession();
  const seconds = until === undefined ? 0 : Math.max(1, Math.ceil((until - useNow(250)) / 1000));
  return (
    <div class="buttons" tabindex={-1}>
      {until === undefined ? (
        <span class="quiet">Approving…</span>
      ) : (
        <>
          <button type="button" class="plain" onClick={single(() => approvals.undo(id))}>
            Undo
          </button>
          {/* Spoken once, not every second. */}
          <span class="quiet" aria-hidden="true">
            Approving in {seconds} s
          </span>
        </>
      )}
    </div>
  );
}

/** What the consumer may do with a hand-off as it is. */
export function rightsOn(handoff: AcceptedHandoff, session: Session): Rights {
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
  const name = handoffName(handoff);
  // What is decided on is what the page shows.
  const reject = () =>
    act((handoffs) => handoffs.reject(id, { reason }, { ifMatch: `"${version}"` }), `Rejected ${name}.`);
  return (
    <Question title={`Reject ${name}?`} action="Reject now" isDanger act={reject} onClose={onClose}>
      <Field
        label="Reason"
        value={reason}
        onInput={setReason}
        required
        maxLength={1000}
        hint="The person who asked for it will see this."
      />
    </Question>
  );
}

function WithdrawQuestion({ handoff, act, onClose }: QuestionProps): VNode {
  const { external_id: id, type } = handoff;
  const name = handoffName(handoff);
  const withdraw = () => act((handoffs) => handoffs.cancel(id), `Withdrew ${name}.`);
  return (
    <Question title={`Withdraw ${name}?`} action="Withdraw now" isDanger act={withdraw} onClose={onClose}>
      <p>The {type} won't be created. If you change your mind, hand it off again.</p>
    </Question>
  );
}
