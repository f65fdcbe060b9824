import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { recall } from '../shared/memory.ts';
import { pageFacts } from '../shared/page-facts.ts';
import { type Session, useSession } from '../shared/session.ts';
import { LoadForm } from './load-form.tsx';
import { followPassed, type Passed, passing, takePassed } from './passed-results.ts';
import { PickPanel } from './pick-panel.tsx';
import { type Picks, picksOf } from './picks.ts';
import { ResultCard } from './result-card.tsx';
import { type Result, readResults, withKnownIds, withMoments } from './results.ts';
import { type Trip, TripForm, useTrip } from './trip-form.tsx';
import { SelectionBar, useTripPicks } from './trip-picks.tsx';

const { samples } = pageFacts;

/** What the page knows outlives a visit to another page. */
interface Kept {
  results: Result[] | undefined;
  /** Results that came with the service. */
  sampleIds: ReadonlySet<string>;
  /** Where the results are from, if a page passed them. */
  passed: Passed | undefined;
  /** Those that a reload interrupted are among them. */
  picks: Picks;
}

/** An advisor's page: chosen search results become quotes and bookings. */
export function HandOffPage(): VNode {
  const session = useSession();
  const kept = recall<Kept>(session.memory, 'hand-off', () => ({
    results: undefined,
    sampleIds: new Set(),
    passed: undefined,
    picks: picksOf(session),
  }));
  const { picks } = kept;
  usePicks(picks, session);
  const trip = useTrip();
  const { results, passed, setResults, change } = useResults(kept, trip);
  const [isLoading, setLoading] = useState(samples === null && passing() === 'none');
  const opener = useRef<HTMLButtonElement>(null);
  const closeForm = () => {
    setLoading(false);
    opener.current?.focus();
  };
  const selection = useTripPicks(results ?? [], trip, picks);
  const types = (['quote', 'booking'] as const).filter((type) => session.can(`${type}s`, 'write'));
  const latest = picks.all[0];
  const hasSamples = results?.some(({ id }) => kept.sampleIds.has(id));
  return (
    <>
      <div class="title">
        <h1>Hand-off</h1>
        <button
          type="button"
          class="plain"
          ref={opener}
          aria-expanded={isLoading}
          onClick={() => setLoading(!isLoading)}
        >
          Load results…
        </button>
      </div>
      {isLoading && (
        <LoadForm
          onLoad={(found: Result[]) => {
            setResults(withKnownIds(found, results), undefined);
            closeForm();
          }}
          onClose={closeForm}
        />
      )}
      <TripForm trip={trip} />
      {passed === undefined ? <PassingNotice /> : <Faults passed={passed} />}
      <Early picks={picks} />
      <h2 class="quiet-heading">{headingOf(results, passed)}</h2>
      {hasSamples && <p class="quiet">These are samples. Hand one off to see how it works.</p>}
      {results?.length === 0 ? (
        <div class="empty">
          <p>No search results yet.</p>
          <p>Use “Load results…” to open a file or paste them.</p>
        </div>
      ) : (
        <ul class="results">
          {results?.map((result) => (
            <li key={result.id}>
              <ResultCard
                result={result}
                trip={trip}
                picks={picks}
                latest={latest}
                choice={{
                  isSelected: selection.chosen.includes(result),
                  findings: selection.findings?.ofResults.get(result.id) ?? [],
                  select: (isSelected) => selection.select(result.id, isSelected),
                }}
                onChange={(changed: Partial<Result>) => change(result.id, changed)}
              />
            </li>
          ))}
        </ul>
      )}
      <SelectionBar selection={selection} types={types} />
    </>
  );
}

/** Hand-offs that stand at no result of the list. */
function Early({ picks }: { picks: Picks }): VNode | null {
  const early = picks.all.filter(({ resultId }) => resultId === undefined);
  if (early.length === 0) return null;
  return (
    <section aria-label="Trip hand-offs and unfinished hand-offs">
      {early.map((pick) => (
        <PickPanel key={pick.key} pick={pick} picks={picks} isLatest={pick === picks.all[0]} />
      ))}
    </section>
  );
}

function headingOf(results: Result[] | undefined, passed: Passed | undefined): string {
  if (results === undefined) return 'Loading the results…';
  const count = results.length === 1 ? '1 search result' : `${results.length} search results`;
  if (passed) return `${count} from ${passed.origin}`;
  return count;
}

/** What to expect where another page opened this one to pass results. */
function PassingNotice(): VNode | null {
  const state = passing();
  if (state === 'none') return null;
  if (state === 'expected')
    return (
      <p class="quiet" role="status">
        Waiting for results from the page that opened this one…
      </p>
    );
  return (
    <div class="problem" role="alert">
      <p>
        <strong>Can't receive results</strong>
      </p>
      <p>
        Open the console again from the search program. If that doesn't help, ask an administrator to check
        that console.resultOrigins lists the program's address, and that its page sends a Referer header.
      </p>
    </div>
  );
}

const mostFaults = 5;

function Faults({ passed: { faults, origin } }: { passed: Passed }): VNode | null {
  if (faults.length === 0) return null;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>Some results from {origin} can't be used</strong>
      </p>
      <ul>
        {faults.slice(0, mostFaults).map((fault) => (
          <li>{fault}</li>
        ))}
      </ul>
      {faults.length > mostFaults && <p>And {faults.length - mostFaults} more.</p>}
    </div>
  );
}

/** Shows what becomes of the picks. */
function usePicks(picks: Picks, { send }: Session): void {
  const [, setChanges] = useState(0);
  useMemo(() => picks.connect(send, () => setChanges((count) => count + 1)), [picks, send]);
}

function useResults(kept: Kept, trip: Trip) {
  const [shown, show] = useState({ results: kept.results, passed: kept.passed });
  const setResults = (results: Result[], passed: Passed | undefined) => {
    Object.assign(kept, { results, passed });
    kept.picks.leave(results);
    show({ results, passed });
  };
  const take = () => {
    const found = takePassed();
    if (found === undefined) return;
    setResults(withKnownIds(found.results, kept.results), found);
    if (found.tripId !== undefined) trip.setTripId(found.tripId);
    if (found.memberId !== undefined) trip.setMemberId(found.memberId);
  };
  useEffect(() => {
    take();
    // What is passed meanwhile is not replaced.
    const useSamples = (found: Result[]) => {
      if (kept.results !== undefined) return;
      kept.sampleIds = new Set(found.map(({ id }) => id));
      setResults(found, undefined);
    };
    if (kept.results === undefined) readSamples().then(useSamples, () => useSamples([]));
    return followPassed(take);
  }, []);
  const change = (id: string, changed: Partial<Result>) => {
    const results = shown.results ?? [];
    setResults(
      results.map((one) => (one.id === id ? { ...one, ...changed } : one)),
      shown.passed,
    );
  };
  return { ...shown, setResults, change };
}

async function readSamples(): Promise<Result[]> {
  if (samples === null || passing() !== 'none') return [];
  const response = await fetch(samples);
  // Another version of the service has others.
  return response.ok ? readResults(withMoments(await response.text(), Date.now())) : [];
}
