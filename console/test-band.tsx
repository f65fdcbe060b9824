import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from './shared/api.ts';
import { ProblemAlert, single } from './shared/parts.tsx';
import { useSession } from './shared/session.ts';

/** Stays visible on every page, however far it is scrolled: what is done here is not for real. */
export function TestBand(): VNode {
  return (
    <aside class="test-band" aria-label="Test mode">
      <strong>Test mode</strong> <span>Nothing here reaches the CRM or the restaurant.</span>
    </aside>
  );
}

/** Empties the world of the test consumer. */
export function TestReset(): VNode {
  const { send } = useSession();
  const [state, setState] = useState<'asking' | 'done' | Problem | undefined>();
  const reset = () =>
    send('/v1/test/reset', { method: 'POST' }).then(
      () => setState('done'),
      (error: unknown) => setState(problemFrom(error)),
    );
  return (
    <>
      <h2>Test records</h2>
      <p>
        Quotes, bookings, reservations and hand-offs that were made with these keys can be deleted, to start
        again. Keys, webhook endpoints and past events stay.
      </p>
      {typeof state === 'object' && <ProblemAlert problem={state} isAnswer />}
      {state === 'done' && (
        <p class="notice" role="status">
          Everything was deleted.
        </p>
      )}
      {state === 'asking' ? (
        <>
          <p>Delete everything that was made with these keys?</p>
          <div class="buttons">
            <button type="button" class="danger" onClick={single(() => void reset())}>
              Delete everything
            </button>
            <button type="button" class="plain" onClick={() => setState(undefined)}>
              Cancel
            </button>
          </div>
        </>
      ) : (
        <div class="buttons">
          <button type="button" class="plain" onClick={single(() => setState('asking'))}>
            Start again…
          </button>
        </div>
      )}
    </>
  );
}
