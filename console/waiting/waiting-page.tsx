import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { useHandoffFacts } from '../shared/handoff-facts.ts';
import { useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { useMembers } from '../shared/members.ts';
import { Amount } from '../shared/money.tsx';
import { crmName, withCrmName } from '../shared/page-facts.ts';
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
import { Actions, DecisionQuestion, rightsOn } from './actions.tsx';
import { AskedBy, detailsIn, stateOf, wordOf } from './handoff-parts.tsx';
import { useInboxKeys } from './inbox-keys.ts';
import { noteName, useNames } from './names.ts';
import { type Handoffs, readHandoffs } from './read-handoffs.ts';
import { type Decisions, useDecisions } from './use-decisions.ts';

const doneAtOnce = 20;

/** Hand-offs that wait for approval or for the CRM, and, apart from them, what became of others. */
export function WaitingPage(): VNode {
  const wantedDone = useRef(doneAtOnce);
  const loaded = useLoad('waiting', (asked) => readHandoffs(asked, wantedDone.current), 5000);
  const decisions = useDecisions(loaded.reload);
  const { problem } = decisions;
  const more = () => {
    wantedDone.current += doneAtOnce;
    void loaded.reload();
  };
  return (
    <>
      <h1>Waiting</h1>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      <div class="above">
        <Freshness of={loaded} />
        {loaded.data && <KeysInShort open={loaded.data.open} />}
      </div>
      <LoadProblem of={loaded} />
      {!loaded.data && !loaded.problem && <Skeleton />}
      {loaded.data && (
        <>
          <Inbox handoffs={loaded.data} decisions={decisions} />
          <Done handoffs={loaded.data} onMore={more} />
        </>
      )}
    </>
  );
}

/** The keys, for who may decide. */
function KeysInShort({ open }: Pick<Handoffs, 'open'>): VNode | null {
  const session = useSession();
  if (!open.some((handoff) => rightsOn(handoff, session).canDecide)) return null;
  return (
    <p class="hint keys">
      <kbd>J</kbd> next <kbd>K</kbd> previous <kbd>A</kbd> approve <kbd>R</kbd> reject <kbd>U</kbd> undo
    </p>
  );
}

const keyOf = ({ external_id }: AcceptedHandoff) => external_id;

interface InboxProps {
  handoffs: Handoffs;
  decisions: Decisions;
}

function Inbox({ handoffs: { open, isCut }, decisions }: InboxProps): VNode {
  const session = useSession();
  const factsOf = useHandoffFacts(open);
  // Only members that the gateway remembers come with their hand-offs.
  const memberOf = useMembers(
    open.flatMap(({ request, member }) => (request && !member ? request.member_id : [])),
  );
  useEffect(() => {
    for (const one of open) if (one.request) noteName(session, pathOfRecord(one), one.request.result.name);
  }, [open]);
  const { attributesOf, goOnFrom } = useInboxKeys(open);
  const question = <DecisionQuestion key="question" decisions={decisions} onDecided={goOnFrom} />;
  if (open.length === 0)
    return (
      <>
        {question}
        <div class="empty">
          <p>Nothing is waiting.</p>
          <p>Hand-offs wait here while {crmName} isn't responding, or until a colleague approves them.</p>
        </div>
      </>
    );
  const columns: Column<AcceptedHandoff>[] = [
    {
      title: 'Name',
      cell: (handoff) => <Wanted key={handoff.version} handoff={handoff} facts={factsOf(handoff)} />,
    },
    {
      title: 'Amount',
      isNumber: true,
      cell: (handoff) => {
        const price = factsOf(handoff)?.price;
        return price && <Amount money={price} />;
      },
    },
    {
      title: 'Member',
      cell: ({ request, member }) =>
        request && <MemberLink id={request.member_id} member={member ?? memberOf(request.member_id)} />,
    },
    {
      title: 'Requested by',
      cell: ({ request, accepted_at }) => (
        <>
          {request && <AskedBy maker={request.created_by} />}
          <p class="hint">
            <Ago at={accepted_at} />
          </p>
        </>
      ),
    },
    { title: 'Offer ends', cell: ({ valid_until }) => valid_until && <Ago at={valid_until} /> },
    status,
    {
      title: 'Actions',
      cell: (handoff) => <Actions handoff={handoff} decisions={decisions} onDecided={goOnFrom} />,
    },
  ];
  return (
    <>
      {question}
      <Table
        caption="Waiting hand-offs"
        columns={columns}
        rows={open}
        keyOf={keyOf}
        attributesOf={attributesOf}
      />
      {isCut && <p class="notice">Some waiting hand-offs aren't shown.</p>}
    </>
  );
}

interface DoneProps {
  handoffs: Handoffs;
  onMore: () => void;
}

function Done({ handoffs: { done, hasMoreDone }, onMore }: DoneProps): VNode {
  const nameAt = useNames(done.filter(({ status }) => status === 'created').map(pathOfRecord));
  const columns: Column<AcceptedHandoff>[] = [
    {
      title: 'Name',
      cell: (handoff) => {
        const name = nameAt(pathOfRecord(handoff));
        return (
          <>
            <NameLink handoff={handoff} name={name ?? wordOf(handoff)} />
            {name && <span class="quiet">{handoff.type}</span>}
          </>
        );
      },
    },
    status,
    { title: 'Handed off', cell: ({ accepted_at }) => <Ago at={accepted_at} /> },
    { title: 'Done', cell: ({ completed_at }) => <Ago at={completed_at} /> },
    {
      title: 'Record',
      cell: (handoff) =>
        handoff.status === 'created' && (
          <a href={pathOfRecord(handoff).replace('/v1', '#/records')}>Show the {handoff.type}</a>
        ),
    },
    { title: 'External ID', cell: ({ external_id }) => <Id>{external_id}</Id> },
  ];
  return (
    <>
      {done.length > 0 && (
        <>
          <h2>Done</h2>
          <Table caption="Done hand-offs" columns={columns} rows={done} keyOf={keyOf} />
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
  cell: (handoff) => {
    const { approval, problem, attempts } = handoff;
    return (
      <>
        <Badge>{stateOf(handoff)}</Badge> {attempts > 1 && <span class="quiet">{attempts} attempts</span>}
        {problem && (
          <>
            <p>
              <strong>{withCrmName(problem.title)}</strong>
            </p>
            <p class="quiet">{withCrmName(problem.detail)}</p>
          </>
        )}
        {approval?.reason && <p class="quiet">{approval.reason}</p>}
      </>
    );
  },
};

function pathOfRecord({ type, external_id }: AcceptedHandoff): string {
  return `/v1/${type}s/${external_id}`;
}

/** To the hand-off's own page. */
function NameLink({ handoff: { external_id }, name }: { handoff: AcceptedHandoff; name: string }): VNode {
  return (
    <>
      <a class="name" href={`#/handoffs/${external_id}`}>
        {name}
      </a>{' '}
    </>
  );
}

interface WantedProps {
  handoff: AcceptedHandoff;
  facts: ReturnType<ReturnType<typeof useHandoffFacts>>;
}

function Wanted({ handoff, facts }: WantedProps): VNode {
  const { external_id: id, request, type } = handoff;
  const { send } = useSession();
  const [details, setDetails] = useState<string | undefined>();
  if (request === null) return <NameLink handoff={handoff} name={wordOf(handoff)} />;
  const { result, trip_id: trip, member_id: member } = request;
  const read = async (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || details !== undefined) return;
    // Text: every digit counts. Where it fails, opening it again tries again.
    const answer = await send(`/v1/handoffs/${id}`).catch(() => undefined);
    setDetails(answer && detailsIn(answer.text));
  };
  return (
    <>
      <NameLink handoff={handoff} name={result.name} />
      <p class="quiet">
        {type} · <bdi>{result.source}</bdi>
      </p>
      {facts && <GlanceLine facts={{ ...facts, price: undefined }} />}
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
