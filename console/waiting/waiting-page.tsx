import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { Problem } from '../shared/api.ts';
import { fieldOf } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import {
  Badge,
  type Column,
  Freshness,
  Id,
  Json,
  LoadProblem,
  ProblemAlert,
  Skeleton,
  Table,
} from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { type Act, Actions } from './actions.tsx';
import { useNames } from './names.ts';
import { type Handoffs, readHandoffs } from './read-handoffs.ts';

type NameAt = (path: string) => string | undefined;

const doneAtOnce = 20;

/** Hand-offs that wait for approval or for the CRM, and, apart from them, what became of others. */
export function WaitingPage(): VNode {
  const session = useSession();
  const [problem, setProblem] = useState<Problem | undefined>();
  const wantedDone = useRef(doneAtOnce);
  const loaded = useLoad('waiting', (asked) => readHandoffs(asked, wantedDone.current), 5000);
  const act: Act = async (change, done) => {
    setProblem(undefined);
    try {
      await change(session.client.handoffs);
      session.say(done);
    } finally {
      // Where it failed, somebody else may have changed it.
      await loaded.reload();
    }
  };
  const more = () => {
    wantedDone.current += doneAtOnce;
    void loaded.reload();
  };
  return (
    <>
      <h1>Waiting</h1>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      <Freshness of={loaded} />
      <LoadProblem of={loaded} />
      {!loaded.data && !loaded.problem && <Skeleton />}
      {loaded.data && <Shown handoffs={loaded.data} act={act} show={setProblem} onMore={more} />}
    </>
  );
}

interface ShownProps {
  handoffs: Handoffs;
  act: Act;
  show: (problem: Problem) => void;
  onMore: () => void;
}

function Shown({ handoffs: { open, isCut, done, hasMoreDone }, act, show, onMore }: ShownProps): VNode {
  const { can } = useSession();
  const recordPaths = done.filter(({ status }) => status === 'created').map(pathOfRecord);
  const memberPaths = can('members', 'read') ? open.flatMap(pathOfMember) : [];
  const nameAt = useNames([...recordPaths, ...memberPaths]);
  const actions: Column<AcceptedHandoff> = {
    title: 'Actions',
    cell: (handoff) => <Actions handoff={handoff} act={act} show={show} />,
  };
  const keyOf = ({ external_id }: AcceptedHandoff) => external_id;
  return (
    <>
      {open.length === 0 ? (
        <div class="empty">
          <p>Nothing is waiting.</p>
          <p>Hand-offs wait here while the CRM does not answer, or until somebody approves them.</p>
        </div>
      ) : (
        <Table
          caption="Waiting hand-offs"
          columns={[...openColumns(nameAt), actions]}
          rows={open}
          keyOf={keyOf}
        />
      )}
      {isCut && <p class="notice">Not all waiting hand-offs are shown.</p>}
      {done.length > 0 && (
        <>
          <h2>Done</h2>
          <Table caption="Done hand-offs" columns={doneColumns(nameAt)} rows={done} keyOf={keyOf} />
        </>
      )}
      {hasMoreDone && (
        <button type="button" class="plain" onClick={onMore}>
          Show more
        </button>
      )}
    </>
  );
}

const status: Column<AcceptedHandoff> = {
  title: 'Status',
  cell: ({ status: state, approval, problem, attempts }) => (
    <>
      <Badge>{state === 'accepted' ? 'waiting' : state}</Badge>{' '}
      {attempts > 1 && <span class="quiet">{attempts} tries</span>}
      {problem && (
        <>
          <p>
            <strong>{problem.title}</strong>
          </p>
          <p class="quiet">{problem.detail}</p>
        </>
      )}
      {approval?.reason && <p class="quiet">{approval.reason}</p>}
    </>
  ),
};

function openColumns(nameAt: NameAt): Column<AcceptedHandoff>[] {
  return [
    { title: 'Name', cell: (handoff) => <Wanted key={handoff.version} handoff={handoff} /> },
    status,
    { title: 'Member', cell: (handoff) => <MemberLink handoff={handoff} nameAt={nameAt} /> },
    { title: 'Handed off', cell: ({ accepted_at }) => <Ago at={accepted_at} /> },
    { title: 'Offer ends', cell: ({ valid_until }) => valid_until && <Ago at={valid_until} /> },
  ];
}

function doneColumns(nameAt: NameAt): Column<AcceptedHandoff>[] {
  return [
    {
      title: 'Name',
      cell: (handoff) => {
        const word = handoff.type === 'quote' ? 'Quote' : 'Booking';
        if (handoff.status !== 'created') return word;
        const path = pathOfRecord(handoff);
        const name = nameAt(path);
        return (
          <>
            <a href={path.replace('/v1', '#/records')}>{name ?? word}</a>
            {name && (
              <>
                <br />
                <span class="quiet">{handoff.type}</span>
              </>
            )}
          </>
        );
      },
    },
    status,
    { title: 'Handed off', cell: ({ accepted_at }) => <Ago at={accepted_at} /> },
    { title: 'Done', cell: ({ completed_at }) => <Ago at={completed_at} /> },
    { title: 'External ID', cell: ({ external_id }) => <Id>{external_id}</Id> },
  ];
}

function pathOfRecord({ type, external_id }: AcceptedHandoff): string {
  return `/v1/${type}s/${external_id}`;
}

function pathOfMember({ request }: AcceptedHandoff): string[] {
  return request === null ? [] : [`/v1/members/${request.member_id}`];
}

interface MemberProps {
  handoff: AcceptedHandoff;
  nameAt: NameAt;
}

function MemberLink({ handoff, nameAt }: MemberProps): VNode {
  const { can } = useSession();
  const [path] = pathOfMember(handoff);
  const id = handoff.request?.member_id;
  if (path === undefined || !can('members', 'read')) return <Id>{id}</Id>;
  return <a href={path.replace('/v1', '#/records')}>{nameAt(path) ?? <Id>{id}</Id>}</a>;
}

/** What is to be written: its name, who asked for it, and, unfolded, the rest. */
function Wanted({ handoff }: { handoff: AcceptedHandoff }): VNode {
  const { external_id: id, request, type } = handoff;
  const { send } = useSession();
  const [details, setDetails] = useState<string | undefined>();
  if (request === null) return <>{type === 'quote' ? 'Quote' : 'Booking'}</>;
  const { result, created_by: maker, trip_id: trip, member_id: member } = request;
  const read = async (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || details !== undefined) return;
    // Text: every digit counts. Where it fails, opening it again tries again.
    const answer = await send(`/v1/handoffs/${id}`).catch(() => undefined);
    const inside = (json: string | undefined, name: string) =>
      json?.startsWith('{') ? fieldOf(json, name) : undefined;
    setDetails(['request', 'result', 'details'].reduce(inside, answer?.text));
  };
  return (
    <>
      <strong>{result.name}</strong>
      <br />
      <span class="quiet">
        {type} · <bdi>{result.source}</bdi> · by <bdi>{maker.consumer_name ?? maker.consumer_id}</bdi>
        {maker.actor && (
          <>
            , <bdi>{maker.actor}</bdi>
          </>
        )}
      </span>
      <details onToggle={read}>
        <summary>Details</summary>
        <p class="hint">
          Trip <code>{trip}</code>
          <br />
          Member <code>{member}</code>
          <br />
          External ID <code>{id}</code>
        </p>
        {details !== undefined && <Json text={details} label={`Details of ${result.name}`} />}
      </details>
    </>
  );
}
