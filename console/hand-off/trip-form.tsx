import { type Member, makeUuid, type Page } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hintOf } from '../shared/faults.ts';
import { useIsTold } from '../shared/first-error.ts';
import { type Loaded, useLoad } from '../shared/load.ts';
import { MemberPicker } from '../shared/member-picker.tsx';
import { remember, sortedName, useMembers } from '../shared/members.ts';
import { recall } from '../shared/memory.ts';
import { Field, ProblemAlert } from '../shared/parts.tsx';
import { useParameters } from '../shared/router.ts';
import { type Session, useSession } from '../shared/session.ts';
import { faultOfId, isUuid } from '../shared/uuid.ts';

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
  tripFault: string | undefined;
  /** The trip and the member that a result is for; undefined where one is missing, and then says so. */
  choose(): Chosen | undefined;
}

/** Survives a visit to another page. */
interface Kept {
  tripId: string;
  /** Undefined until somebody chooses. */
  chosenId: string | undefined;
}

export function useTrip(): Trip {
  const session = useSession();
  const kept = recall<Kept>(session.memory, 'trip', () => ({ tripId: makeUuid(), chosenId: undefined }));
  const [given] = useParameters(['trip_id', 'member_id']);
  const [tripId, setTripId] = useState(given.trip_id || kept.tripId);
  const [chosenId, setMemberId] = useState(given.member_id || kept.chosenId);
  const [isTried, setTried] = useState(false);
  const canRead = session.can('members', 'read');
  const members = useLoad('members', (asked) => (canRead ? readMembers(asked) : Promise.resolve(undefined)));
  const memberId = chosenId ?? '';
  Object.assign(kept, { tripId, chosenId });
  const chosen = { tripId: tripId.trim(), memberId: memberId.trim() };
  const choose = () => {
    const isComplete = faultOf(chosen) === undefined && isUuid(chosen.tripId);
    setTried(!isComplete);
    if (!isComplete) document.getElementById('trip')?.scrollIntoView({ block: 'nearest' });
    return isComplete ? chosen : undefined;
  };
  return {
    ...{ tripId, setTripId, memberId, setMemberId, choose },
    fault: isTried ? faultOf(chosen) : undefined,
    tripFault: faultOfTrip(chosen.tripId, isTried),
    isReading: canRead && members.data === undefined && members.problem === undefined,
    members: canRead ? (members as Loaded<Page<Member>>) : undefined,
  };
}

function faultOfTrip(tripId: string, isTried: boolean): string | undefined {
  return tripId === '' && isTried ? 'Enter an ID, or start a new trip.' : faultOfId('trip', tripId);
}

function faultOf({ memberId }: Chosen): string | undefined {
  if (memberId === '') return 'Choose a member first.';
  if (!isUuid(memberId)) return "The member's External ID isn't a UUID.";
  return undefined;
}

/** The newest members: somebody to begin with, and whether members can be read at all. */
async function readMembers(session: Session): Promise<Page<Member>> {
  const page = await session.client.members.list({ limit: 8 }).page();
  remember(session, page.data);
  return { ...page, data: page.data.toSorted((a, b) => sortedName(a).localeCompare(sortedName(b))) };
}

/** Whom the results are for, and on which trip. */
export function TripForm({ trip }: { trip: Trip }): VNode {
  const { members, memberId, setMemberId, tripId, setTripId, fault, tripFault } = trip;
  const section = useRef<HTMLElement>(null);
  const wasNamed = useWasNamed(memberId);
  const hasBox = members === undefined || (isWithout(members) && !wasNamed);
  // Where the members come back while somebody types, the keyboard goes along to what takes the box's place.
  const box = section.current?.querySelector('input');
  const hadFocus = box && document.activeElement === box;
  useLayoutEffect(() => {
    if (hadFocus) section.current?.querySelector('input')?.focus();
  }, [hasBox]);
  return (
    <section id="trip" class="trip" aria-label="Member and trip" ref={section}>
      {hasBox ? (
        <Field
          label="Member"
          value={memberId}
          onInput={setMemberId}
          placeholder="External ID of the member"
        />
      ) : (
        <MemberPicker memberId={memberId} onChange={setMemberId} suggested={members.data?.data} />
      )}
      <div class="with-button">
        <Field label="Trip ID" value={tripId} onInput={setTripId} maxLength={36} {...hintOf(tripFault)} />
        <button type="button" class="plain" onClick={() => setTripId(makeUuid())}>
          New trip
        </button>
      </div>
      {fault !== undefined && (
        <p class="problem" role="alert">
          {fault}
        </p>
      )}
      {members?.problem && <MembersProblem members={members} hasBox={hasBox} />}
    </section>
  );
}

/** Whether a member's name has stood there: what is typed over it stays in the same box. */
function useWasNamed(memberId: string): boolean {
  const member = useMembers([memberId])(memberId);
  const wasNamed = useRef(false);
  wasNamed.current ||= member !== undefined;
  return wasNamed.current;
}

interface ProblemProps {
  members: Loaded<Page<Member>>;
  hasBox: boolean;
}

function MembersProblem({ members, hasBox }: ProblemProps): VNode | null {
  const { problem, reload } = members;
  const isTold = useIsTold(problem);
  const other = hasBox && "You can still hand off with a member's External ID. ";
  if (problem === undefined) return null;
  if (isTold) return other ? <p class="quiet">{other}</p> : null;
  return (
    <ProblemAlert problem={problem}>
      <p>
        {other}
        <button type="button" class="link" onClick={reload}>
          Load the members again
        </button>
      </p>
    </ProblemAlert>
  );
}

/** The members could not be read: the CRM may be unavailable, and hand-offs accepted nevertheless. */
function isWithout({ data, problem }: Loaded<Page<Member>>): boolean {
  return data === undefined && problem !== undefined;
}
