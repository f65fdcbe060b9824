import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Question } from './shared/dialog.tsx';
import { crmName } from './shared/page-facts.ts';
import { single } from './shared/parts.tsx';
import { useSession } from './shared/session.ts';

/** Stays visible on every page, however far it is scrolled: what is done here is not for real. */
export function TestBand(): VNode {
  return (
    <aside class="test-band" aria-label="Test mode">
      <strong>Test mode</strong> <span>Nothing here reaches {crmName} or the restaurant.</span>
    </aside>
  );
}

/** Empties the world of the test consumer. */
export function TestReset(): VNode {
  const { send } = useSession();
  const [isAsking, ask] = useState(false);
  const [isDone, setDone] = useState(false);
  const reset = () => send('/v1/test/reset', { method: 'POST' }).then(() => setDone(true));
  return (
    <>
      <h2>Test records</h2>
      <p>
        Delete the quotes, bookings, reservations and hand-offs made with these keys to start over. Keys,
        webhook endpoints and past events stay.
      </p>
      {isDone && (
        <p class="notice" role="status">
          Deleted everything.
        </p>
      )}
      <div class="buttons">
        <button type="button" class="plain" onClick={single(() => ask(true))}>
          Start over…
        </button>
      </div>
      {isAsking && (
        <Question
          title="Start over?"
          action="Delete everything"
          isDanger
          act={reset}
          onClose={() => ask(false)}
        >
          <p>Delete everything made with these keys?</p>
        </Question>
      )}
    </>
  );
}
