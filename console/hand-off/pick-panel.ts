import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { useLoad } from '../shared/load.ts';
import { ProblemAlert } from '../shared/parts.ts';
import { isTest, read, useSession } from '../shared/session.ts';
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
  const { can } = useSession();
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
      ${can(`${type}s`, 'read') && html`<p>You can try it again under <a href="#/waiting">Waiting</a>.</p>`}
    </${ProblemAlert}></div>`;
  return html`<div class=${`pick ${lookOf(pick)}`} role=${isLatest ? 'status' : undefined}>
    ${title}
    ${
      confirmation
        ? html`<${Confirmed} pick=${pick} confirmation=${confirmation} picks=${picks} />`
        : html`<p>Handing off as ${type}…</p>`
    }
  </div>`;
}

function lookOf({ state, confirmation }: Pick): string {
  return confirmation && isOpen(confirmation.status) ? 'open' : state;
}

function Confirmed({ pick, confirmation, picks }: ConfirmedProps): VNode {
  const { status, external_id: externalId, id } = confirmation;
  const { can } = useSession();
  useStatusUpdates(pick, confirmation, picks);
  const word = pick.type === 'quote' ? 'Quote' : 'Booking';
  return html`<p>
      <strong>${word} ${status.replaceAll('_', ' ')}</strong>${status === 'rejected' && `: ${confirmation.approval?.reason ?? ''}`}
      ${explanations[status]}${' '}
      ${
        isOpen(status)
          ? can(`${pick.type}s`, 'read') && html`<a href="#/waiting">Show it under Waiting</a>`
          : status === 'created' &&
            html`<${RecordLink} type=${pick.type} id=${id} externalId=${externalId} />`
      }
    </p>
    <p class="hint">External ID <code>${externalId}</code></p>`;
}

/** What happens next, where that is not over. */
const explanations: Partial<Record<Confirmation['status'], string>> = {
  accepted: '. The CRM is not answering: the record will be created as soon as it does.',
  awaiting_approval: '. The record will be created once somebody approves it.',
};

interface ConfirmedProps {
  pick: Pick;
  confirmation: Confirmation;
  picks: Picks;
}

/** Loads a hand-off that waits again and again, until it is created or ends without a record. */
function useStatusUpdates(pick: Pick, { status, external_id: id }: Confirmation, picks: Picks): void {
  const { can } = useSession();
  const isFollowed = isOpen(status) && can(`${pick.type}s`, 'read');
  const { data: current } = useLoad(
    `handoff ${id}`,
    async (session) => (isFollowed ? read<Confirmation>(session, `/v1/handoffs/${id}`) : undefined),
    isFollowed ? followMs : undefined,
  );
  useEffect(() => {
    if (current && current.status !== status) picks.settle(pick, current);
  }, [current]);
}

const followMs = 2000;

/** Whether it can still become a record. */
function isOpen(status: Confirmation['status']): boolean {
  return status === 'accepted' || status === 'awaiting_approval';
}

interface LinkProps {
  type: Pick['type'];
  id: string | null;
  externalId: string;
}

/** Leads to the record in the CRM; in this console where it is not there, or the CRM's address is not known. */
function RecordLink({ type, id, externalId }: LinkProps): VNode | null {
  const { facts, refreshFacts, consumer, can } = useSession();
  const { record_url: pattern } = facts;
  useEffect(() => {
    if (pattern === null) void refreshFacts();
  }, [pattern === null]);
  if (pattern === null || id === null || isTest(consumer))
    return can(`${type}s`, 'read')
      ? html`<a href=${`#/records/${type}s/${externalId}`}>Show the ${type}</a>`
      : null;
  const address = pattern.replace('{id}', encodeURIComponent(id));
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">Open the ${type} in the CRM</a>`;
}
