import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { ProblemAlert } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import type { Confirmation, Pick, Picks } from './picks.ts';

interface PanelProps {
  pick: Pick;
  picks: Picks;
  /** The one that a screen reader is to follow. */
  isLatest: boolean;
}

/** What became of a pick: on its way, done, or what went wrong and how to go on. */
export function PickPanel({ pick, picks, isLatest }: PanelProps): VNode {
  const { state, problem, confirmation, resultId, name, type } = pick;
  const title = resultId === undefined ? html`<p class="quiet">${name}, as ${type}</p>` : undefined;
  if (state === 'failed' && problem) {
    return html`<div class="pick">
      ${title}
      <${ProblemAlert} problem=${problem}>
        <p class="buttons">
          <button type="button" class="primary" onClick=${() => void picks.tryAgain(pick)}>Try again</button>
          <button type="button" class="plain" onClick=${() => picks.drop(pick)}>Dismiss</button>
        </p>
      </${ProblemAlert}>
    </div>`;
  }
  if (confirmation?.status === 'failed' && confirmation.problem)
    return html`<div class="pick">${title}<${ProblemAlert} problem=${confirmation.problem}>
      <p>It can be tried again under <a href="#/waiting">Waiting</a>.</p>
    </${ProblemAlert}></div>`;
  return html`<div class=${`pick ${state}`} role=${isLatest ? 'status' : undefined}>
    ${title}
    ${
      confirmation
        ? html`<${Confirmed} pick=${pick} confirmation=${confirmation} picks=${picks} />`
        : html`<p>Handing off as ${type}…</p>`
    }
  </div>`;
}

function Confirmed({ pick, confirmation, picks }: ConfirmedProps): VNode {
  const { status, external_id: externalId, id } = confirmation;
  const { can } = useSession();
  useFate(pick, confirmation, picks);
  const word = pick.type === 'quote' ? 'Quote' : 'Booking';
  return html`<p>
      <strong>${word} ${status}</strong> ${status === 'accepted' && 'and waiting for the CRM. '}
      ${
        status === 'accepted'
          ? can(`${pick.type}s`, 'read') && html`<a href="#/waiting">See what waits</a>`
          : status === 'created' &&
            html`<${RecordLink} type=${pick.type} id=${id} externalId=${externalId} />`
      }
    </p>
    <p class="hint">External ID <code>${externalId}</code></p>`;
}

interface ConfirmedProps {
  pick: Pick;
  confirmation: Confirmation;
  picks: Picks;
}

/** Follows a hand-off that was accepted until it is created, or will never be. */
function useFate(pick: Pick, { status, external_id: id }: Confirmation, picks: Picks): void {
  const { send, can } = useSession();
  useEffect(() => {
    if (status !== 'accepted' || !can(`${pick.type}s`, 'read')) return undefined;
    const timer = setInterval(async () => {
      // Where that fails, the next try may not.
      const answer = await send(`/v1/handoffs/${id}`).catch(() => undefined);
      const fate = answer && (JSON.parse(answer.text) as Confirmation);
      if (fate && fate.status !== 'accepted') picks.settle(pick, fate);
    }, followMs);
    return () => clearInterval(timer);
  }, [status, id]);
}

const followMs = 2000;

interface LinkProps {
  type: Pick['type'];
  id: string | null;
  externalId: string;
}

/** Leads to the record in the CRM; in this console where the CRM's address is not known. */
function RecordLink({ type, id, externalId }: LinkProps): VNode {
  const { facts, refreshFacts } = useSession();
  const { record_url: pattern } = facts;
  useEffect(() => {
    if (pattern === null) void refreshFacts();
  }, [pattern === null]);
  if (pattern === null || id === null)
    return html`<a href=${`#/records/${type}s/${externalId}`}>Show the ${type}</a>`;
  const address = pattern.replace('{id}', encodeURIComponent(id));
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">Open the ${type} in the CRM</a>`;
}
