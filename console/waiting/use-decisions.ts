import type { AcceptedHandoff, HandoffClient } from '@handoff-gateway/client';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../shared/api.ts';
import { useSession } from '../shared/session.ts';

/** Makes a change, and tells that it is done. */
export type Act = (
  change: (handoffs: HandoffClient['handoffs']) => Promise<unknown>,
  done: string,
) => Promise<void>;

/** Question before a hand-off is rejected or withdrawn. */
interface Asked {
  what: 'reject' | 'withdraw';
  /** As it was seen. */
  handoff: AcceptedHandoff;
}

export interface Decisions {
  act: Act;
  asked: Asked | undefined;
  ask(asked: Asked | undefined): void;
  problem: Problem | undefined;
  show(problem: Problem): void;
}

/** Decisions on a page that reads hand-offs again after each. Approvals are sent when the page is left. */
export function useDecisions(reload: () => Promise<void>): Decisions {
  const { client, approvals, say } = useSession();
  const [asked, ask] = useState<Asked | undefined>();
  const [problem, show] = useState<Problem | undefined>();
  const [, setChanges] = useState(0);
  /** External ID of the approval that failed last. */
  const failed = useRef<string | undefined>(undefined);
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(
    () =>
      approvals.follow({
        changed: () => setChanges((count) => count + 1),
        answered: (id, failure) => {
          // One that goes well leaves the failure of another to be read.
          if (failure !== undefined || failed.current === id) show(failure);
          if (failure !== undefined) failed.current = id;
          return latest.current();
        },
      }),
    [approvals],
  );
  const act: Act = async (change, done) => {
    show(undefined);
    try {
      await change(client.handoffs);
      say(done);
    } finally {
      // Where it failed, somebody else may have changed it.
      await latest.current();
    }
  };
  return { act, asked, ask, problem, show };
}
