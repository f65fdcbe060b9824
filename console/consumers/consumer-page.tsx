import type { AuthenticationAttempt as Attempt, AuditEvent } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { attemptColumns, keyOfAttempt } from '../access-log/attempts.tsx';
import { ChangeFacts, ChangeSentence } from '../access-log/change-sentence.tsx';
import { type Loaded, useLoad } from '../shared/load.ts';
import { Badge, Freshness, LoadProblem, Skeleton, Table } from '../shared/parts.tsx';
import { read, useSession, withQuery } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { Usage } from '../usage.tsx';
import { AccessFacts, Keys } from './access-facts.tsx';
import { type Change, type Consumer, pathOf, statusOf } from './consumer.ts';
import { PageActions } from './consumer-actions.tsx';
import { listAddress } from './consumer-list.tsx';

/** How many of the latest entries are shown; the access log has all. */
const latest = 10;

interface PageProps {
  id: string;
}

/** One consumer: what it may do and does, its keys, and who changed it. */
export function ConsumerPage({ id }: PageProps): VNode {
  const loaded = useLoad(`consumer ${id}`, (asked) => read<Consumer>(asked, pathOf(id)));
  const changes = useLoad(`changes of ${id}`, (asked) =>
    read<{ data: AuditEvent[] }>(
      asked,
      withQuery('/v1/admin/audit-events', { target_id: id, limit: String(latest) }),
    ),
  );
  const { data } = loaded;
  return (
    <>
      <Title loaded={loaded} changes={changes} />
      {loaded.problem?.status === 404 ? (
        <p class="notice">
          There's no consumer with the ID <code>{id}</code>. If it was revoked, its history is below.
        </p>
      ) : (
        <Freshness of={loaded} />
      )}
      <div class="beside">
        <div class="stack">
          <Facts loaded={loaded} />
          {data && <Usage path={`${pathOf(id)}/usage`} />}
          <LatestRequests id={id} />
        </div>
        <LatestChanges id={id} changes={changes} />
      </div>
    </>
  );
}

interface FactsProps {
  loaded: Loaded<Consumer>;
}

interface TitleProps extends FactsProps {
  changes: Loaded<{ data: AuditEvent[] }>;
}

function Title({ loaded, changes }: TitleProps): VNode {
  const session = useSession();
  const heading = useHeading();
  const { data, reload } = loaded;
  const name = data?.name ?? revokedName({ loaded, changes });
  useDocumentTitle(name);
  const list = listAddress(session);
  const change: Change = async (path, options) => {
    const { text } = await session.send(path, options);
    if (options.method !== 'DELETE') void Promise.all([reload(), changes.reload()]);
    return text;
  };
  const leave = () => {
    location.hash = list;
  };
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={list}>Consumers</a>
      </nav>
      <div class="title">
        <h1 ref={heading} tabindex={-1}>
          {name ?? 'Consumer'}
        </h1>
        {data ? (
          <>
            <Badge>{statusOf(data)}</Badge>
            {data.mode === 'test' && <Badge>test</Badge>}
            <PageActions consumer={data} change={change} onRevoked={leave} />
          </>
        ) : (
          name && <Badge>revoked</Badge>
        )}
      </div>
    </>
  );
}

/** A consumer that was revoked is known by that event. */
function revokedName({ loaded: { problem }, changes: { data } }: TitleProps): string | undefined {
  const last = data?.data[0];
  return problem?.status === 404 && last?.action === 'consumer.revoked' ? last.target.name : undefined;
}

function Facts({ loaded }: FactsProps): VNode | null {
  const { data, problem } = loaded;
  if (problem?.status === 404) return null;
  if (data === undefined) return problem ? <LoadProblem of={loaded} /> : <Skeleton />;
  return (
    <>
      <LoadProblem of={loaded} />
      <AccessFacts consumer={data} />
      <h2>Keys</h2>
      <Keys consumer={data} />
    </>
  );
}

interface ChangesProps extends PageProps {
  changes: Loaded<{ data: AuditEvent[] }>;
}

function LatestChanges({ id, changes }: ChangesProps): VNode {
  const { data, problem } = changes;
  return (
    <section class="panel history" aria-label="Changes">
      <h2>Changes</h2>
      <LoadProblem of={changes} />
      {!data && !problem && <Skeleton />}
      {data?.data.length === 0 && <p class="quiet">No changes yet.</p>}
      <ol class="timeline">
        {data?.data.map((event) => (
          <li key={event.id} class={toneOf(event.action)}>
            <p>
              <ChangeSentence event={event} />
            </p>
            <p class="hint">
              <Ago at={event.timestamp} />
            </p>
            <ChangeFacts event={event} />
          </li>
        ))}
      </ol>
      <a href={`#/access-log/changes?consumer_id=${id}`}>All changes</a>
    </section>
  );
}

function toneOf(action: string): string {
  if (['consumer.created', 'consumer.enabled'].includes(action)) return 'good';
  return ['consumer.disabled', 'consumer.revoked'].includes(action) ? 'bad' : '';
}

function LatestRequests({ id }: PageProps): VNode {
  const loaded = useLoad(`requests of ${id}`, (asked) =>
    read<{ data: Attempt[] }>(
      asked,
      withQuery('/v1/admin/auth-attempts', { consumer_id: id, limit: String(latest) }),
    ),
  );
  const { data, problem } = loaded;
  return (
    <>
      <div class="title">
        <h2>Access log</h2>
        <a href={`#/access-log?consumer_id=${id}`}>All requests</a>
      </div>
      <LoadProblem of={loaded} />
      {!data && !problem && <Skeleton />}
      {data?.data.length === 0 && <p class="empty">No requests yet.</p>}
      {data && data.data.length > 0 && (
        <Table caption="Access log" columns={attemptColumns} rows={data.data} keyOf={keyOfAttempt} />
      )}
    </>
  );
}
