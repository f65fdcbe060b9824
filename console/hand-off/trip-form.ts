import { type Member, makeUuid, type Page } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { type Loaded, useLoad } from '../shared/load.ts';
import { Choice, Field, ProblemAlert } from '../shared/parts.ts';
import { type Session, useSession } from '../shared/session.ts';

interface Chosen {
  tripId: string;
  memberId: string;
}

export interface Trip extends Chosen {
  setTripId: (id: string) => void;
  setMemberId: (id: string) => void;
  /** Undefined where the person may not read members. */
  members: Loaded<Page<Member>> | undefined;
  /** The members are asked for, and no answer came yet. */
  isReading: boolean;
  /** What is missing, after somebody tried without it. */
  fault: string | undefined;
  /** The trip and the member that a result is for; undefined where one is missing, and then says so. */
  choose(): Chosen | undefined;
}

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

interface Kept {
  consumerId: string;
  tripId: string;
  /** Undefined until somebody chooses. */
  chosenId: string | undefined;
}

/** Survives a visit to another page, for the same consumer. */
let kept: Kept | undefined;

export function useTrip(): Trip {
  const session = useSession();
  const consumerId = session.consumer.id;
  const known = kept?.consumerId === consumerId ? kept : undefined;
  const [tripId, setTripId] = useState(() => known?.tripId ?? makeUuid());
  const [chosenId, setMemberId] = useState(known?.chosenId);
  const [isTried, setTried] = useState(false);
  const canRead = session.can('members', 'read');
  const members = useLoad('members', (asked) => (canRead ? readMembers(asked) : Promise.resolve(undefined)));
  const memberId = chosenId ?? firstOf(members.data) ?? '';
  kept = { consumerId, tripId, chosenId };
  const chosen = { tripId: tripId.trim(), memberId: memberId.trim() };
  const choose = () => {
    const isComplete = faultOf(chosen) === undefined;
    setTried(!isComplete);
    if (!isComplete) document.getElementById('trip')?.scrollIntoView({ block: 'nearest' });
    return isComplete ? chosen : undefined;
  };
  return {
    ...{ tripId, setTripId, memberId, setMemberId, choose },
    fault: isTried ? faultOf(chosen) : undefined,
    isReading: canRead && members.data === undefined && members.problem === undefined,
    members: canRead ? (members as Loaded<Page<Member>>) : undefined,
  };
}

function faultOf({ tripId, memberId }: Chosen): string | undefined {
  if (memberId === '') return 'Choose a member first.';
  if (!uuid.test(memberId)) return "The member's External ID is no UUID.";
  if (!uuid.test(tripId)) return 'The trip ID is no UUID.';
  return undefined;
}

async function readMembers({ client }: Session): Promise<Page<Member>> {
  const page = await client.members.list({ limit: 200 }).page();
  return { ...page, data: page.data.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b))) };
}

function nameOf({ first_name, last_name }: Member): string {
  return [last_name, first_name].filter(Boolean).join(', ') || 'Without a name';
}

/** To try the console, any member will do; in production nobody is chosen by accident. */
function firstOf(page: Page<Member> | undefined): string | undefined {
  const isTrial = document.documentElement.dataset['samples'] !== undefined;
  return isTrial ? page?.data[0]?.id : undefined;
}

/** Whom the results are for, and on which trip. */
export function TripForm({ trip }: { trip: Trip }): VNode {
  const { members, memberId, setMemberId, tripId, setTripId, fault } = trip;
  return html`<section id="trip" class="trip" aria-label="For whom">
    ${
      members === undefined || isWithout(members)
        ? html`<${Field} label="Member" value=${memberId} onInput=${setMemberId} placeholder="External ID of the member" />`
        : html`<${MemberChoice} members=${members} memberId=${memberId} setMemberId=${setMemberId} />`
    }
    <div class="with-button">
      <${Field} label="Trip ID" value=${tripId} onInput=${setTripId} maxLength=${36} />
      <button type="button" class="plain" onClick=${() => setTripId(makeUuid())}>New trip</button>
    </div>
    ${fault !== undefined && html`<p class="problem" role="alert">${fault}</p>`}
    ${
      members?.problem &&
      html`<${ProblemAlert} problem=${members.problem}>
        <p>${isWithout(members) && "With a member's External ID you can hand off all the same. "}<button type="button" class="link" onClick=${members.reload}>Read the members again</button></p>
      </${ProblemAlert}>`
    }
  </section>`;
}

/** The members could not be read: the CRM may be unavailable, and hand-offs accepted nevertheless. */
function isWithout({ data, problem }: Loaded<Page<Member>>): boolean {
  return data === undefined && problem !== undefined;
}

interface MemberChoiceProps {
  members: Loaded<Page<Member>>;
  memberId: string;
  setMemberId: (id: string) => void;
}

function MemberChoice({ members, memberId, setMemberId }: MemberChoiceProps): VNode {
  const [found, setFound] = useState<Member[]>([]);
  const { data } = members;
  const all = [...found, ...(data?.data ?? [])];
  const options: [string, string][] = all.map((one) => [
    one.id,
    [nameOf(one), one.email].filter(Boolean).join(' · '),
  ]);
  const hint = data === undefined ? 'Reading the members…' : 'Choose a member';
  return html`<${Choice} label="Member" value=${memberId} onChange=${setMemberId} options=${[['', hint], ...options]} />
    ${
      data?.has_more &&
      html`<${Finder} onFound=${(one: Member) => {
        setFound([one, ...found.filter(({ id }) => id !== one.id)]);
        setMemberId(one.id);
      }} />`
    }`;
}

/** Where there are more members than a list can show. */
function Finder({ onFound }: { onFound: (member: Member) => void }): VNode {
  const session = useSession();
  const [text, setText] = useState('');
  const [answer, setAnswer] = useState('');
  const find = async (event: Event) => {
    event.preventDefault();
    setAnswer('Looking…');
    const member = await findMember(session, text.trim()).catch(() => undefined);
    setAnswer(member === undefined ? 'Nobody found.' : '');
    if (member) onFound(member);
  };
  return html`<form class="with-button" onSubmit=${find}>
    <${Field} label="Find by e-mail or External ID" value=${text} onInput=${setText} required hint=${answer} />
    <button class="plain">Find</button>
  </form>`;
}

async function findMember({ client }: Session, text: string): Promise<Member | undefined> {
  if (uuid.test(text)) return client.members.retrieve(text);
  const page = await client.members.list({ email: text }).page();
  return page.data[0];
}
