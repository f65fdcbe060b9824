import type { Member } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { GlanceLine } from '../shared/at-a-glance.tsx';
import { glance } from '../shared/guess.ts';
import { type Field, fieldOf, fieldsOf, parseDigits } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.tsx';
import { includedIn, memberName } from '../shared/members.ts';
import { Amount, isMoney } from '../shared/money.tsx';
import { Badge, Freshness, LoadProblem, Skeleton } from '../shared/parts.tsx';
import { type Session, useSession, withQuery } from '../shared/session.ts';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { CopyableId, Details, Email, Value } from '../shared/value.tsx';
import { labelOf } from '../shared/words.ts';
import { listAddress, titles } from './collections.ts';
import { History } from './history.tsx';
import { type Maker, MakerName } from './maker.tsx';
import type { Collection } from './search.ts';

interface RecordProps {
  collection: Collection;
  id: string;
}

/** One record: its name, its fields in words, its details, and what became of it. */
export function RecordPage({ collection, id }: RecordProps): VNode {
  const session = useSession();
  const path = `/v1/${collection}/${encodeURIComponent(id)}`;
  const loaded = useLoad(path, (asked) => readRecord(asked, collection, path));
  const { data, problem } = loaded;
  const isGone = problem?.status === 404;
  const heading = useHeading();
  const name = data === undefined ? undefined : nameOf(collection, data);
  useDocumentTitle(name);
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={listAddress(session, collection)}>{titles[collection]}</a>
      </nav>
      <div class="title">
        <h1 ref={heading} tabindex={-1}>
          {name ?? kinds[collection]}
        </h1>
        <Badge>{textOf(data, 'status')}</Badge>
      </div>
      <Glance collection={collection} json={data} />
      <Freshness of={loaded} />
      <LoadProblem of={loaded}>{isGone && <ShowAll collection={collection} />}</LoadProblem>
      <div class={isGone ? 'stack' : 'beside'}>
        <div class="stack">
          {data !== undefined ? (
            <Facts collection={collection} id={id} fields={fieldsOf(data)} />
          ) : (
            !problem && <Skeleton />
          )}
        </div>
        {collection !== 'members' && <History path={path} what={kinds[collection].toLowerCase()} />}
      </div>
    </>
  );
}

/** As text: every digit counts. */
async function readRecord(session: Session, collection: Collection, path: string): Promise<string> {
  const include = collection === 'members' ? undefined : includedIn(session, collection);
  return (await session.send(withQuery(path, { include }))).text;
}

/** Kind, date and price. */
function Glance({ collection, json }: { collection: Collection; json: string | undefined }): VNode | null {
  if (json === undefined || collection === 'members') return null;
  return <GlanceLine facts={glance(parseDigits(json))} />;
}

/** What is not there is not there the next time either. */
function ShowAll({ collection }: { collection: Collection }): VNode {
  return (
    <p>
      <a href={`#/records/${collection}`}>Show all {collection}</a>
    </p>
  );
}

interface OverviewProps {
  fields: readonly Field[];
}

function Facts({ collection, id, fields }: RecordProps & OverviewProps): VNode {
  return (
    <>
      <Overview fields={fields} />
      {collection === 'members' && <RecordsOf memberId={id} />}
      {fields.filter(isStructured).map(({ name, text }) => (
        <Details key={name} json={text} title={labelOf(name)} />
      ))}
    </>
  );
}

const kinds: Record<Collection, string> = { quotes: 'Quote', bookings: 'Booking', members: 'Member' };

function nameOf(collection: Collection, json: string): string {
  if (collection !== 'members') return textOf(json, 'name') || `Unnamed ${kinds[collection].toLowerCase()}`;
  return memberName({
    first_name: textOf(json, 'first_name') ?? null,
    last_name: textOf(json, 'last_name') ?? null,
  });
}

/** A field that has a text; empty where it has none, or is not shown to this consumer. */
function textOf(json: string | undefined, name: string): string {
  const text = json === undefined ? undefined : fieldOf(json, name);
  return text?.startsWith('"') ? (JSON.parse(text) as string) : '';
}

/** Shown in a panel of its own. */
function isStructured({ name, text }: Field): boolean {
  return !['created_by', 'member'].includes(name) && /^\{|^\[\s*[{[]/.test(text);
}

/** What stands in the heading needs no line. */
const inHeading = ['name', 'first_name', 'last_name', 'status'];

type Whose = Pick<Member, 'first_name' | 'last_name' | 'email'>;

function Overview({ fields }: OverviewProps): VNode {
  const shown = fields.filter(
    (field) => ![...inHeading, 'member'].includes(field.name) && !isStructured(field),
  );
  const member = fields.find(({ name, text }) => name === 'member' && text !== 'null');
  // Ids are for programs: they come last.
  const ordered = [...shown.filter(({ name }) => !isId(name)), ...shown.filter(({ name }) => isId(name))];
  return (
    <section class="panel" aria-label="Overview">
      <dl class="fields">
        {ordered.map((field) => (
          <>
            <dt>{labelOf(field.name)}</dt>
            <dd>
              <FieldValue member={member && (JSON.parse(member.text) as Whose)} {...field} />
            </dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function isId(name: string): boolean {
  return name === 'id' || name === 'trip_id';
}

function FieldValue({ member, name, text }: Field & { member: Whose | undefined }): VNode {
  const value = text.startsWith('"') ? (JSON.parse(text) as string) : '';
  if (name === 'member_id' && value) return <MemberOf id={value} member={member} />;
  if (name === 'trip_id' && value)
    return (
      <>
        <CopyableId id={value} what="the trip's ID" /> <a href={`#/trips/${value}`}>Show the trip</a>
      </>
    );
  if (name === 'created_by' && text.startsWith('{')) return <MakerName maker={JSON.parse(text) as Maker} />;
  // Its currency isn't said: the one of the details may be another.
  if (isMoney({ name, text })) return <Amount money={{ amount: text, currency: undefined }} />;
  return <Value json={text} label={labelOf(name)} />;
}

function MemberOf({ id, member }: { id: string; member: Whose | undefined }): VNode {
  return (
    <>
      <MemberLink id={id} member={member} />
      {member?.email && (
        <>
          {' '}
          <span class="quiet">
            <Email address={member.email} />
          </span>
        </>
      )}
    </>
  );
}

function RecordsOf({ memberId }: { memberId: string }): VNode {
  const { can } = useSession();
  return (
    <p class="buttons">
      {(['quotes', 'bookings'] as const)
        .filter((one) => can(one, 'read'))
        .map((one) => (
          <a class="button" key={one} href={`#/records/${one}?member_id=${memberId}`}>
            {titles[one]} of this member
          </a>
        ))}
    </p>
  );
}
