import type { VNode } from 'preact';
import type { Problem } from '../shared/api.ts';
import { html } from '../shared/html.ts';
import { type Field, fieldOf, fieldsOf } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import { MemberLink } from '../shared/member-link.ts';
import { memberName, useMembers } from '../shared/members.ts';
import { Badge, Freshness, ProblemAlert, Skeleton, TryAgain } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { useDocumentTitle, useHeading } from '../shared/title.ts';
import { CopyableId, Details, Value } from '../shared/value.ts';
import { labelOf } from '../shared/words.ts';
import { listAddress, titles } from './collections.ts';
import { History } from './history.ts';
import { MakerName } from './maker.ts';
import type { Collection } from './search.ts';

interface RecordProps {
  collection: Collection;
  id: string;
}

/** One record: its name, its fields in words, its details, and what became of it. */
export function RecordPage({ collection, id }: RecordProps): VNode {
  const session = useSession();
  const path = `/v1/${collection}/${encodeURIComponent(id)}`;
  // Text: every digit counts.
  const loaded = useLoad(path, async ({ send }) => (await send(path)).text);
  const { data, problem, reload } = loaded;
  const heading = useHeading();
  const name = data === undefined ? undefined : nameOf(collection, data);
  useDocumentTitle(name);
  return html`<nav class="crumbs" aria-label="Breadcrumb"><a href=${listAddress(session, collection)}>${titles[collection]}</a></nav>
    <div class="title">
      <h1 ref=${heading} tabindex="-1">${name ?? kinds[collection]}</h1>
      <${Badge}>${textOf(data, 'status')}</${Badge}>
    </div>
    <${Freshness} of=${loaded} />
    ${problem && html`<${ProblemAlert} problem=${problem}><${WayOn} collection=${collection} problem=${problem} reload=${reload} /></${ProblemAlert}>`}
    <div class=${problem?.status === 404 ? 'stack' : 'beside'}>
      <div class="stack">
        ${loaded.isLoading && data === undefined && html`<${Skeleton} />`}
        ${data !== undefined && html`<${Facts} collection=${collection} id=${id} fields=${fieldsOf(data)} />`}
      </div>
      ${collection !== 'members' && html`<${History} path=${path} what=${kinds[collection].toLowerCase()} />`}
    </div>`;
}

interface WayOnProps {
  collection: Collection;
  problem: Problem;
  reload: () => unknown;
}

/** What is not there is not there the next time either. */
function WayOn({ collection, problem, reload }: WayOnProps): VNode {
  if (problem.status !== 404) return html`<${TryAgain} act=${reload} />`;
  return html`<p><a href=${`#/records/${collection}`}>Show all ${collection}</a></p>`;
}

interface OverviewProps {
  collection: Collection;
  fields: readonly Field[];
}

function Facts({ collection, id, fields }: RecordProps & OverviewProps): VNode {
  return html`<${Overview} collection=${collection} fields=${fields} />
    ${collection === 'members' && html`<${RecordsOf} memberId=${id} />`}
    ${fields.filter(isStructured).map(({ name, text }) => html`<${Details} key=${name} json=${text} title=${labelOf(name)} />`)}`;
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
  return name !== 'created_by' && /^\{|^\[\s*[{[]/.test(text);
}

/** What stands in the heading needs no line. */
const inHeading = ['name', 'first_name', 'last_name', 'status'];

function Overview({ collection, fields }: OverviewProps): VNode {
  const shown = fields.filter((field) => !inHeading.includes(field.name) && !isStructured(field));
  // Ids are for programs: they come last.
  const ordered = [...shown.filter(({ name }) => !isId(name)), ...shown.filter(({ name }) => isId(name))];
  return html`<section class="panel" aria-label="Overview">
    <dl class="fields">
      ${ordered.map((field) => html`<dt>${labelOf(field.name)}</dt><dd><${FieldValue} collection=${collection} ...${field} /></dd>`)}
    </dl>
  </section>`;
}

function isId(name: string): boolean {
  return name === 'id' || name === 'trip_id';
}

function FieldValue({ collection, name, text }: Field & Pick<RecordProps, 'collection'>): VNode {
  const value = text.startsWith('"') ? (JSON.parse(text) as string) : '';
  if (name === 'member_id' && value) return html`<${MemberOf} id=${value} />`;
  if (name === 'trip_id' && value)
    return html`<${CopyableId} id=${value} what="the trip's ID" /> <a href=${`#/records/${collection}?trip_id=${value}`}>${titles[collection]} of this trip</a>`;
  if (name === 'created_by' && text.startsWith('{')) return html`<${MakerName} maker=${JSON.parse(text)} />`;
  return html`<${Value} json=${text} label=${labelOf(name)} />`;
}

function MemberOf({ id }: { id: string }): VNode {
  const member = useMembers([id]).get(id);
  return html`<${MemberLink} id=${id} member=${member} />${member?.email && html` <span class="quiet">${member.email}</span>`}`;
}

function RecordsOf({ memberId }: { memberId: string }): VNode {
  const { can } = useSession();
  return html`<p class="buttons">
    ${(['quotes', 'bookings'] as const)
      .filter((one) => can(one, 'read'))
      .map(
        (one) =>
          html`<a class="button" key=${one} href=${`#/records/${one}?member_id=${memberId}`}>${titles[one]} of this member</a>`,
      )}
  </p>`;
}
