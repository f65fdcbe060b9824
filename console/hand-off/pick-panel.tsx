import type { Page } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { useLoad } from '../shared/load.ts';
import { memberName, useMembers } from '../shared/members.ts';
import { crmName, withCrmName } from '../shared/page-facts.ts';
import { ProblemAlert } from '../shared/parts.tsx';
import { isTest, read, type Session, useSession, withQuery } from '../shared/session.ts';
import { type Confirmation, type ItemConfirmation, isFinal, type Pick, type Picks } from './picks.ts';

interface PanelProps {
  pick: Pick;
  picks: Picks;
  /** The one that a screen reader is to follow. */
  isLatest: boolean;
}

/** What became of a pick: on its way, done, or what went wrong and how to go on. */
export function PickPanel({ pick, picks, isLatest }: PanelProps): VNode {
  const { state, problem, confirmation, resultId, type } = pick;
  const { can } = useSession();
  const title = resultId === undefined && !pick.made && <Title pick={pick} />;
  if (state === 'failed' && problem) {
    return (
      <div class="pick">
        {title}
        <ProblemAlert problem={problem}>
          <GoOn pick={pick} picks={picks} />
        </ProblemAlert>
      </div>
    );
  }
  if (confirmation?.status === 'failed' && confirmation.problem)
    return (
      <div class="pick">
        {title}
        <ProblemAlert problem={confirmation.problem}>
          {can(`${type}s`, 'read') && (
            <p>
              You can retry it under <a href="#/waiting">Waiting</a>.
            </p>
          )}
        </ProblemAlert>
      </div>
    );
  return (
    <div class={`pick ${lookOf(pick)}`} role={isLatest ? 'status' : undefined}>
      {title}
      <Outcome pick={pick} picks={picks} />
    </div>
  );
}

function GoOn({ pick, picks }: Omit<PanelProps, 'isLatest'>): VNode {
  // After a final refusal a repeat is refused, too.
  const [again, dismiss] = isFinal(pick.problem) ? ['plain', 'primary'] : ['primary', 'plain'];
  return (
    <p class="buttons">
      <button type="button" class={again} onClick={() => void picks.tryAgain(pick)}>
        Try again
      </button>
      <button type="button" class={dismiss} onClick={() => picks.drop(pick)}>
        Dismiss
      </button>
    </p>
  );
}

/** Results that stand in no list, or are several, are named. */
function Title({ pick: { name, type, items } }: { pick: Pick }): VNode {
  return (
    <p class="quiet">
      {name}, as {items ? `${type}s` : type}
    </p>
  );
}

function Outcome({ pick, picks }: { pick: Pick; picks: Picks }): VNode {
  const { made, confirmation, type, items } = pick;
  if (made) return <ConfirmedTrip pick={pick} made={made} picks={picks} />;
  if (confirmation) return <Confirmed pick={pick} confirmation={confirmation} picks={picks} />;
  return <p>Handing off as {items ? `${type}s` : type}…</p>;
}

function lookOf({ state, confirmation, made = [] }: Pick): string {
  return [confirmation, ...made].some((one) => one && isOpen(one.status)) ? 'open' : state;
}

interface ConfirmedTripProps {
  pick: Pick;
  made: readonly ItemConfirmation[];
  picks: Picks;
}

function ConfirmedTrip({ pick, made, picks }: ConfirmedTripProps): VNode {
  const { can } = useSession();
  const { type, items = [], tripId } = pick;
  useTripUpdates(pick, made, picks);
  return (
    <>
      <ForWhom pick={pick} />
      <ul>
        {made.map((item, i) => (
          <li key={i}>
            <bdi>{items[i]?.name}</bdi>: <ConfirmedItem type={type} item={item} />
          </li>
        ))}
      </ul>
      {made.some(({ status }) => status === 'accepted') && (
        <p>What was accepted is saved. {crmName} isn't responding; we'll create it as soon as it does.</p>
      )}
      {can(`${type}s`, 'read') && (
        <p>
          <a href={`#/trips/${tripId}`}>Show the trip</a>
        </p>
      )}
    </>
  );
}

function ConfirmedItem({ type, item }: { type: Pick['type']; item: ItemConfirmation }): VNode {
  const { can } = useSession();
  const { status, external_id: id, problem } = item;
  const hasRecord = ['created', 'existing', 'updated'].includes(status);
  return (
    <>
      <strong>
        {type} {status.replaceAll('_', ' ')}
      </strong>
      {status === 'failed' && problem && `. ${withCrmName(problem.detail)}`}{' '}
      {id !== null && can(`${type}s`, 'read') && (
        <a href={hasRecord ? `#/records/${type}s/${id}` : `#/handoffs/${id}`}>
          {hasRecord ? `Show the ${type}` : 'Follow the hand-off'}
        </a>
      )}
    </>
  );
}

/** The member by name, where names can be read. */
function ForWhom({ pick: { memberId, name, items } }: { pick: Pick }): VNode | null {
  const member = useMembers([memberId])(memberId);
  if (member === undefined) return null;
  return (
    <p>
      {items ? `${name} for ` : 'For '}
      <bdi>{memberName(member)}</bdi>
    </p>
  );
}

function Confirmed({ pick, confirmation, picks }: ConfirmedProps): VNode {
  const { status, external_id: externalId, id } = confirmation;
  const { can } = useSession();
  useStatusUpdates(pick, confirmation, picks);
  const word = pick.type === 'quote' ? 'Quote' : 'Booking';
  return (
    <>
      <p>
        <strong>
          {word} {status.replaceAll('_', ' ')}
        </strong>
        {status === 'rejected' && `: ${confirmation.approval?.reason ?? ''}`}
        {explanations[status]?.(pick.type)}{' '}
        {isOpen(status)
          ? can(`${pick.type}s`, 'read') && <a href={`#/handoffs/${externalId}`}>Follow the hand-off</a>
          : status === 'created' && <RecordLink type={pick.type} id={id} />}
      </p>
      {status === 'created' && <ConsoleLinks pick={pick} externalId={externalId} />}
      <ForWhom pick={pick} />
      <p class="hint">
        External ID <code>{externalId}</code>
      </p>
    </>
  );
}

function ConsoleLinks({
  pick: { type, tripId },
  externalId,
}: {
  pick: Pick;
  externalId: string;
}): VNode | null {
  const { can } = useSession();
  if (!can(`${type}s`, 'read')) return null;
  return (
    <p>
      <a href={`#/records/${type}s/${externalId}`}>Show the {type}</a> ·{' '}
      <a href={`#/trips/${tripId}`}>Show the trip</a>
    </p>
  );
}

/** What happens next, where that is not over. */
const explanations: Partial<Record<Confirmation['status'], (type: Pick['type']) => string>> = {
  accepted: (type) => ` and saved. ${crmName} isn't responding; we'll create the ${type} as soon as it does.`,
  awaiting_approval: (type) => `. We'll create the ${type} once a colleague approves it.`,
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
    if (current && current.status !== status) picks.settle(pick, { confirmation: current });
  }, [current]);
}

/** Follows several hand-offs with one request. */
function useTripUpdates(pick: Pick, made: readonly ItemConfirmation[], picks: Picks): void {
  const { can } = useSession();
  const isFollowed = made.some(({ status }) => isOpen(status)) && can(`${pick.type}s`, 'read');
  const path = withQuery('/v1/handoffs', { trip_id: pick.tripId, type: pick.type, limit: '100' });
  const { data: current } = useLoad(
    `handoffs ${pick.key}`,
    async (session) => (isFollowed ? read<Page<Confirmation>>(session, path) : undefined),
    isFollowed ? followMs : undefined,
  );
  useEffect(() => {
    const next = made.map((item) => {
      const found = current?.data.find(({ external_id: id }) => id === item.external_id);
      return found && found.status !== item.status ? { ...item, ...found } : item;
    });
    if (next.some((item, i) => item !== made[i])) picks.settle(pick, { made: next });
  }, [current]);
}

const followMs = 2000;

/** Whether it can still become a record. */
function isOpen(status: ItemConfirmation['status']): boolean {
  return status === 'accepted' || status === 'awaiting_approval';
}

interface LinkProps {
  type: Pick['type'];
  id: string | null;
}

/** Address of a record in the CRM, with `{id}`; null while the service does not know it. */
async function readRecordUrl({ memory }: Session): Promise<string | null> {
  const known = memory.get('record-url') as string | undefined;
  if (known !== undefined) return known;
  const response = await fetch('/console/settings', { signal: AbortSignal.timeout(settingsTimeoutMs) });
  const { record_url: found } = (await response.json()) as { record_url: string | null };
  if (found !== null) memory.set('record-url', found);
  return found;
}

const settingsTimeoutMs = 5000;

/** Leads to the record in the CRM; nothing where it is not there, or the CRM's address is not known. */
function RecordLink({ type, id }: LinkProps): VNode | null {
  const { consumer } = useSession();
  const { data: pattern } = useLoad('record-url', readRecordUrl);
  if (!pattern || id === null || isTest(consumer)) return null;
  const address = pattern.replace('{id}', encodeURIComponent(id));
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      Open the {type} in {crmName}
    </a>
  );
}
