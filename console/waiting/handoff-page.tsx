import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { type Loaded, useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { useMembers } from '../shared/members.ts';
import { isOutage } from '../shared/outage.ts';
import { crmName } from '../shared/page-facts.ts';
import { Badge, Freshness, LoadProblem, ProblemAlert, Skeleton } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { CopyableId, Details } from '../shared/value.tsx';
import { Actions, DecisionQuestion } from './actions.tsx';
import { AskedBy, stateOf, wordOf } from './handoff-parts.tsx';
import { type Life, readLife, type Subject } from './read-handoff.ts';
import { openStatuses } from './read-handoffs.ts';
import { Steps } from './steps.tsx';
import { type Decisions, useDecisions } from './use-decisions.ts';

/** The life of one hand-off, as it goes on. `route`: its External ID. */
export function HandoffPage({ route: [id = ''] }: { route: string[] }): VNode {
  return <OneHandoff key={id} id={id} />;
}

const followMs = 2500;
/** Events are delivered, and a record may be found, for so long after the end. */
const lateMs = 120_000;

function OneHandoff({ id }: { id: string }): VNode {
  const loaded = useLife(id);
  const { data } = loaded;
  const decisions = useDecisions(loaded.reload);
  const { problem } = decisions;
  useSaidEnd(data);
  const isUnknown = loaded.problem?.status === 404;
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="#/waiting">Waiting</a>
      </nav>
      <Heading life={data} isUnknown={isUnknown} />
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {isUnknown ? (
        <Unknown />
      ) : (
        <>
          <Freshness of={loaded} />
          <LoadProblem of={loaded} />
        </>
      )}
      {data === undefined && loaded.problem === undefined && <Skeleton />}
      {data && (
        <div class="life">
          <Overview life={data} decisions={decisions} />
          <Steps life={data} />
          {data.subject?.details !== undefined && <Details json={data.subject.details} title="Details" />}
        </div>
      )}
    </>
  );
}

/** Reads it again and again until it is over. */
function useLife(id: string): Loaded<Life> {
  const subject = useRef<Subject | undefined>(undefined);
  const [isOver, setOver] = useState(false);
  const loaded = useLoad(
    `handoff ${id}`,
    async (asked) => {
      const life = await readLife(asked, id, subject.current);
      subject.current = life.subject;
      return life;
    },
    isOver ? undefined : followMs,
  );
  const { data, problem } = loaded;
  useEffect(
    () => setOver(problem?.status === 404 || (data !== undefined && isOverIn(data))),
    [data, problem],
  );
  return loaded;
}

function Heading({ life, isUnknown }: { life: Life | undefined; isUnknown: boolean }): VNode {
  const heading = useHeading();
  const found = isUnknown ? 'Hand-off not found' : life && (life.subject?.name ?? wordOf(life.handoff));
  useDocumentTitle(found);
  return (
    <>
      <div class="title">
        <h1 ref={heading} tabindex={-1}>
          {found ?? 'Hand-off'}
        </h1>
        <Badge>{life && stateOf(life.handoff)}</Badge>
      </div>
      {life?.subject && <GlanceLine facts={life.subject.facts} />}
    </>
  );
}

function Unknown(): VNode {
  return (
    <p>
      There's no hand-off with this ID, or you don't have access to it. Hand-offs are kept for 30 days. You'll
      find those that {crmName} accepted right away under <a href="#/records">Records</a>.
    </p>
  );
}

function isOverIn({ handoff: { status, completed_at }, unread }: Life): boolean {
  if (unread && isOutage(unread)) return false;
  const isOpen = status !== 'failed' && (openStatuses as readonly string[]).includes(status);
  return !isOpen && completed_at !== null && Date.now() - Date.parse(completed_at) > lateMs;
}

/** Tells ears how it ended, while somebody looks. */
function useSaidEnd(life: Life | undefined): void {
  const { say } = useSession();
  const before = useRef<string | undefined>(undefined);
  const status = life?.handoff.status;
  useEffect(() => {
    const name = life?.subject?.name ?? 'the hand-off';
    if (before.current !== undefined && (status === 'created' || status === 'failed'))
      say(status === 'created' ? `Created ${name}.` : `Couldn't create ${name}.`);
    before.current = status;
  }, [status]);
}

interface OverviewProps {
  life: Life;
  decisions: Decisions;
}

function Overview({ life: { handoff, subject }, decisions }: OverviewProps): VNode {
  const { external_id: id, type, status, valid_until } = handoff;
  return (
    <section class="panel" aria-label="Overview">
      <dl class="fields">
        <dt>Type</dt>
        <dd>
          {wordOf(handoff)}
          {status === 'created' && (
            <>
              {' '}
              · <a href={`#/records/${type}s/${id}`}>Show the {type}</a>
            </>
          )}
        </dd>
        {subject && <SubjectFacts subject={subject} />}
        {valid_until && (
          <>
            <dt>Offer ends</dt>
            <dd>
              <Ago at={valid_until} />
            </dd>
          </>
        )}
        <dt>External ID</dt>
        <dd>
          <CopyableId id={id} what="the External ID" />
        </dd>
      </dl>
      <Actions handoff={handoff} decisions={decisions} />
      <DecisionQuestion decisions={decisions} />
    </section>
  );
}

function SubjectFacts({ subject: { source, memberId, member, tripId, maker } }: { subject: Subject }): VNode {
  const memberOf = useMembers(memberId && !member ? [memberId] : []);
  return (
    <>
      <dt>Supplier</dt>
      <dd>{source}</dd>
      <dt>Member</dt>
      <dd>
        <MemberLink id={memberId} member={member ?? memberOf(memberId)} />
      </dd>
      <dt>Requested by</dt>
      <dd>
        <AskedBy maker={maker} />
      </dd>
      {tripId && (
        <>
          <dt>Trip</dt>
          <dd>
            <CopyableId id={tripId} what="the trip's ID" /> <a href={`#/trips/${tripId}`}>Show the trip</a>
          </dd>
        </>
      )}
    </>
  );
}
