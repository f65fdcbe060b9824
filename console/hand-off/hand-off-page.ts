import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { type Session, useSession } from '../shared/session.ts';
import { LoadForm } from './load-form.ts';
import { followPassed, type Passed, passing, takePassed } from './passed-results.ts';
import { PickPanel } from './pick-panel.ts';
import { Picks } from './picks.ts';
import { ResultCard } from './result-card.ts';
import { type Result, readResults, withKnownIds, withMoments } from './results.ts';
import { type Trip, TripForm, useTrip } from './trip-form.ts';

/** Address of the samples; there is none in production. */
const samples = document.documentElement.dataset['samples'];

/** What the page knows outlives a visit to another page, for as long as somebody is signed in. */
interface Kept {
  consumerId: string;
  results: Result[] | undefined;
  /** Where the results are from, if a page passed them. */
  passed: Passed | undefined;
  picks: Picks;
}
let kept: Kept | undefined;

/** An advisor's page: chosen search results become quotes and bookings. */
export function HandOffPage(): VNode {
  const session = useSession();
  const picks = usePicks(session);
  const trip = useTrip();
  const { results, passed, setResults, change } = useResults(trip);
  const [isLoading, setLoading] = useState(samples === undefined && passing() === 'none');
  const early = picks.all.filter(({ resultId }) => resultId === undefined);
  const latest = picks.all[0];
  return html`<div class="title">
      <h1>Hand-off</h1>
      <button type="button" class="plain" aria-expanded=${isLoading} onClick=${() => setLoading(!isLoading)}>Load results…</button>
    </div>
    ${
      isLoading &&
      html`<${LoadForm} onLoad=${(found: Result[]) => {
        setResults(withKnownIds(found, results), undefined);
        setLoading(false);
      }} />`
    }
    <${TripForm} trip=${trip} />
    ${passed === undefined ? html`<${PassingNotice} />` : html`<${Faults} passed=${passed} />`}
    ${
      early.length > 0 &&
      html`<section aria-label="Not finished">
        ${early.map((pick) => html`<${PickPanel} key=${pick.key} pick=${pick} picks=${picks} isLatest=${pick === latest} />`)}
      </section>`
    }
    <h2 class="quiet-heading">${headingOf(results, passed)}</h2>
    ${
      results?.length === 0
        ? html`<div class="empty"><p>No search results yet.</p><p>Use “Load results…” to open a file or paste them.</p></div>`
        : html`<ul class="results">
            ${results?.map(
              (result) => html`<li key=${result.id}>
                <${ResultCard} result=${result} trip=${trip} picks=${picks} latest=${latest}
                  onChange=${(changed: Partial<Result>) => change(result.id, changed)} />
              </li>`,
            )}
          </ul>`
    }`;
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
    return html`<p class="quiet" role="status">Waiting for results from the page that opened this one…</p>`;
  return html`<div class="problem" role="alert">
    <p><strong>No results can be received</strong></p>
    <p>Open the console again from the search program. If that does not help, its administrator has to check two things: the
      program's address is in the setting console.resultOrigins, and its page sends a Referer header.</p>
  </div>`;
}

const mostFaults = 5;

function Faults({ passed: { faults, origin } }: { passed: Passed }): VNode | null {
  if (faults.length === 0) return null;
  return html`<div class="problem" role="alert">
    <p><strong>Some results from ${origin} cannot be used</strong></p>
    <ul>${faults.slice(0, mostFaults).map((fault) => html`<li>${fault}</li>`)}</ul>
    ${faults.length > mostFaults && html`<p>And ${faults.length - mostFaults} more.</p>`}
  </div>`;
}

/** The picks of this consumer; those that a reload interrupted are among them. */
function usePicks(session: Session): Picks {
  const [, setChanges] = useState(0);
  const { consumer } = session;
  return useMemo(() => {
    const changed = () => setChanges((count) => count + 1);
    const known = kept?.consumerId === consumer.id ? kept : undefined;
    const picks = known?.picks ?? new Picks(consumer.id);
    picks.connect(session.send, changed);
    kept = { consumerId: consumer.id, results: known?.results, passed: known?.passed, picks };
    return picks;
  }, [session]);
}

function useResults(trip: Trip) {
  const [shown, show] = useState({ results: kept?.results, passed: kept?.passed });
  const setResults = (results: Result[], passed: Passed | undefined) => {
    if (kept) Object.assign(kept, { results, passed });
    kept?.picks.leave(results);
    show({ results, passed });
  };
  const take = () => {
    const found = takePassed();
    if (found === undefined) return;
    setResults(withKnownIds(found.results, kept?.results), found);
    if (found.tripId !== undefined) trip.setTripId(found.tripId);
    if (found.memberId !== undefined) trip.setMemberId(found.memberId);
  };
  useEffect(() => {
    take();
    // What is passed meanwhile is not replaced.
    const useSamples = (found: Result[]) => kept?.results ?? setResults(found, undefined);
    if (kept?.results === undefined) readSamples().then(useSamples, () => useSamples([]));
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
  if (samples === undefined || passing() !== 'none') return [];
  const response = await fetch(samples);
  // Another version of the service has others.
  return response.ok ? readResults(withMoments(await response.text(), Date.now())) : [];
}
