import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { type Session, useSession } from '../shared/session.ts';
import { LoadForm } from './load-form.ts';
import { PickPanel } from './pick-panel.ts';
import { Picks } from './picks.ts';
import { ResultCard } from './result-card.ts';
import { type Result, readResults, withMoments } from './results.ts';
import { TripForm, useTrip } from './trip-form.ts';

/** Address of the samples; there is none in production. */
const samples = document.documentElement.dataset['samples'];

/** What the page knows outlives a visit to another page, for as long as somebody is signed in. */
interface Kept {
  consumerId: string;
  results: Result[] | undefined;
  picks: Picks;
}
let kept: Kept | undefined;

/** An advisor's page: chosen search results become quotes and bookings. */
export function HandOffPage(): VNode {
  const session = useSession();
  const picks = usePicks(session);
  const { results, setResults, change } = useResults();
  const [isLoading, setLoading] = useState(samples === undefined);
  const trip = useTrip();
  const early = picks.all.filter(({ resultId }) => resultId === undefined);
  const latest = picks.all[0];
  return html`<div class="title">
      <h1>Hand-off</h1>
      <button type="button" class="plain" aria-expanded=${isLoading} onClick=${() => setLoading(!isLoading)}>Load results…</button>
    </div>
    ${
      isLoading &&
      html`<${LoadForm} onLoad=${(found: Result[]) => {
        setResults(found);
        setLoading(false);
      }} />`
    }
    <${TripForm} trip=${trip} />
    ${
      early.length > 0 &&
      html`<section aria-label="Not finished">
        ${early.map((pick) => html`<${PickPanel} key=${pick.key} pick=${pick} picks=${picks} isLatest=${pick === latest} />`)}
      </section>`
    }
    <h2 class="quiet-heading">${headingOf(results)}</h2>
    ${
      results?.length === 0
        ? html`<div class="empty"><p>No search results yet.</p><p>Load them from a file, or paste them, with “Load results…”.</p></div>`
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

function headingOf(results: Result[] | undefined): string {
  if (results === undefined) return 'Reading the results…';
  return results.length === 1 ? '1 search result' : `${results.length} search results`;
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
    kept = { consumerId: consumer.id, results: known?.results, picks };
    return picks;
  }, [session]);
}

function useResults() {
  const [results, show] = useState<Result[] | undefined>(kept?.results);
  const setResults = (found: Result[]) => {
    if (kept) kept.results = found;
    show(found);
  };
  useEffect(() => {
    if (results !== undefined) return;
    readSamples().then(setResults, () => setResults([]));
  }, []);
  const change = (id: string, changed: Partial<Result>) =>
    setResults((results ?? []).map((one) => (one.id === id ? { ...one, ...changed } : one)));
  return { results, setResults, change };
}

async function readSamples(): Promise<Result[]> {
  if (samples === undefined) return [];
  const response = await fetch(samples);
  // Another version of the service has others.
  return response.ok ? readResults(withMoments(await response.text(), Date.now())) : [];
}
