import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { withCrmName } from '../shared/page-facts.ts';
import { Ago, duration, inWords, isSameDay, timeOfDay } from '../shared/time.tsx';

type Attempt = NonNullable<AcceptedHandoff['latest_attempts']>[number];

const shownAtFirst = 3;

/** Attempts to deliver a hand-off with their outcomes, the newest first, and when the next one is. */
export function Attempts({ handoff }: { handoff: AcceptedHandoff }): VNode {
  const [isWhole, showAll] = useState(false);
  const { attempts, latest_attempts: latest = [], status } = handoff;
  const isRunning = status === 'accepted' && attempts > 0 && latest.at(-1)?.number !== attempts;
  const kept = countKept(handoff);
  const shown = isWhole ? kept : Math.min(kept, shownAtFirst);
  const attemptOf = (number: number) => latest.find((one) => one.number === number);
  return (
    <>
      {status === 'accepted' && !isRunning && <Next at={handoff.next_attempt_at} />}
      <ol class="attempts" aria-label="Attempts">
        {Array.from({ length: shown }, (_, age) => attempts - age).map((number) => (
          <li key={number}>
            <Outcome
              number={number}
              attempt={attemptOf(number)}
              above={attemptOf(number + 1)}
              isRunning={isRunning && number === attempts}
            />
          </li>
        ))}
      </ol>
      {kept > shown && (
        <button type="button" class="plain" onClick={() => showAll(true)}>
          Show {kept < attempts ? `the last ${kept} of ${attempts.toLocaleString('en')}` : `all ${kept}`}{' '}
          attempts
        </button>
      )}
    </>
  );
}

/** Without those before the oldest one that is recorded: they are kept no longer, or were cut off. */
function countKept({ attempts, latest_attempts: [oldest] = [] }: AcceptedHandoff): number {
  return attempts - (oldest?.number ?? Math.max(attempts, 1)) + 1;
}

function Next({ at }: { at: string | null | undefined }): VNode {
  if (!at) return <p class="quiet">The gateway will try again automatically.</p>;
  return (
    <p class="quiet">
      Next attempt: <Ago at={at} />
    </p>
  );
}

interface OutcomeProps {
  number: number;
  /** Undefined where its outcome was not recorded. */
  attempt: Attempt | undefined;
  /** The attempt after it, with its date. */
  above: Attempt | undefined;
  isRunning: boolean;
}

function Outcome({ number, attempt, above, isRunning }: OutcomeProps): VNode {
  const title = `Attempt ${number.toLocaleString('en')}`;
  if (attempt === undefined)
    return (
      <p class="quiet">
        {title}: {isRunning ? 'in progress' : 'outcome not recorded'}
      </p>
    );
  const { at, duration_ms, problem } = attempt;
  const began = Date.parse(at);
  const hasDateAbove = above !== undefined && isSameDay(began, Date.parse(above.at));
  return (
    <>
      <p>
        {title}: {problem ? withCrmName(problem.detail) : 'Succeeded.'}{' '}
        {problem && <code>{problem.code}</code>}
      </p>
      <p class="hint">
        <time datetime={at} title={inWords(began)}>
          {hasDateAbove ? timeOfDay(began) : inWords(began)}
        </time>{' '}
        · took {duration(duration_ms)}
      </p>
    </>
  );
}
