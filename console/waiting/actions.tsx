import type { AcceptedHandoff, HandoffClient } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Field, single } from '../shared/parts.tsx';
import { needsApproval, type Session, useSession } from '../shared/session.ts';

/** Makes a change; false where it failed, which the page shows. */
export type Act = (change: (handoffs: HandoffClient['handoffs']) => Promise<unknown>) => Promise<boolean>;

interface ActionsProps {
  handoff: AcceptedHandoff;
  act: Act;
}

/** What the consumer may do with a hand-off. */
export function Actions({ handoff, act }: ActionsProps): VNode {
  const [isAsking, ask] = useState(false);
  const { external_id: id, version } = handoff;
  // What is decided on is what the page shows.
  const ifMatch = `"${version}"`;
  const { canDecide, canRetry, canCancel } = rightsOn(handoff, useSession());
  if (isAsking && canDecide)
    return <RejectForm id={id} ifMatch={ifMatch} act={act} onClose={() => ask(false)} />;
  return (
    <div class="buttons">
      {canDecide && (
        <button
          type="button"
          class="primary"
          onClick={single(() => void act((handoffs) => handoffs.approve(id, { ifMatch })))}
        >
          Approve
        </button>
      )}
      {canDecide && (
        <button type="button" class="plain" onClick={single(() => ask(true))}>
          Reject
        </button>
      )}
      {canRetry && (
        <button
          type="button"
          class="plain"
          onClick={single(() => void act((handoffs) => handoffs.retry(id)))}
        >
          Retry
        </button>
      )}
      {canCancel && (
        <button
          type="button"
          class="plain"
          onClick={single(() => void act((handoffs) => handoffs.cancel(id)))}
        >
          Cancel
        </button>
      )}
    </div>
  );
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

interface RejectProps {
  id: string;
  ifMatch: string;
  act: Act;
  onClose: () => void;
}

/** Asks why: the consumer that asked gets the reason. */
function RejectForm({ id, ifMatch, act, onClose }: RejectProps): VNode {
  const [reason, setReason] = useState('');
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector('input')?.focus(), []);
  const reject = (event: Event) => {
    event.preventDefault();
    // What was typed stays until it has arrived.
    void act((handoffs) => handoffs.reject(id, { reason }, { ifMatch })).then(
      (isDone) => isDone && onClose(),
    );
  };
  return (
    <form class="ask" ref={form} onSubmit={reject}>
      <Field label="Reason" value={reason} onInput={setReason} required maxLength={1000} />
      <div class="buttons">
        <button class="danger">Reject now</button>
        <button type="button" class="plain" onClick={onClose}>
          Back
        </button>
      </div>
    </form>
  );
}
