import type { AuditEvent } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { isObject } from '../shared/json-text.ts';
import { FoldedJson } from '../shared/parts.tsx';
import { listOf, type Permission, inWords as permissionsInWords } from '../shared/permissions.ts';
import { useSession } from '../shared/session.ts';
import { dateAndTime } from '../shared/time.tsx';
import { labelOf } from '../shared/words.ts';

interface EventProps {
  event: AuditEvent;
}

type Change = AuditEvent['changes'][number];

/** Who did what to whom: `Ada Byron changed Partner X's limits: requests per minute 60 → 120`. */
export function ChangeSentence({ event }: EventProps): VNode {
  const [only] = inSentence(event);
  return (
    <>
      <Actor actor={event.actor} /> <Done event={event} />
      {only && (
        <>
          : <ChangeInWords change={only} event={event} />
        </>
      )}
    </>
  );
}

/** A single change stands in the sentence, permissions apart: they are too long. */
function inSentence(event: AuditEvent): Change[] {
  const changes = shownChanges(event);
  return changes.length === 1 ? changes.filter(({ field }) => field !== 'permissions') : [];
}

/** Several changes, and the event as the API has it: the sentence has no room for them. */
export function ChangeFacts({ event }: EventProps): VNode {
  const changes = inSentence(event).length > 0 ? [] : shownChanges(event);
  return (
    <>
      {changes.length > 0 && (
        <ul class="changes">
          {changes.map((change) => (
            <li key={change.field}>
              <ChangeInWords change={change} event={event} />
            </li>
          ))}
        </ul>
      )}
      <FoldedJson summary="Raw data" text={JSON.stringify(event)} label={`Raw data for ${event.id}`} />
    </>
  );
}

/** A person, with whether the person has signed in; else the program. */
function Actor({ actor: { type, id, name, person, verified } }: { actor: AuditEvent['actor'] }): VNode {
  if (type === 'service') return <strong>The gateway</strong>;
  if (type !== 'consumer')
    return (
      <>
        <strong>{name}</strong> on the command line
      </>
    );
  const consumer = <a href={`#/consumers/${id}`}>{name}</a>;
  if (person === null) return consumer;
  return (
    <>
      <strong>{person}</strong>{' '}
      <span class="quiet">
        ({verified ? 'signed in' : 'not verified'}, via {consumer})
      </span>
    </>
  );
}

const verbs: Record<string, string> = {
  'consumer.created': 'created',
  'consumer.rotated': 'rotated',
  'consumer.disabled': 'disabled',
  'consumer.enabled': 'enabled',
  'consumer.revoked': 'revoked',
};

function Done({ event }: EventProps): VNode {
  const { action, target, changes } = event;
  if (action.startsWith('handoff.')) return <Decision event={event} />;
  const renamed = changes.length === 1 ? changes.find(({ field }) => field === 'name') : undefined;
  const verb = verbs[action] ?? (renamed ? 'renamed' : 'changed');
  return (
    <>
      {verb} <a href={`#/consumers/${target.id}`}>{target.name}</a>
      {action === 'consumer.rotated' && "'s key"}
      {verb === 'changed' && `'s ${listOf(topicsOf(changes))}`}
    </>
  );
}

function Decision({ event: { action, target } }: EventProps): VNode {
  const { can } = useSession();
  const what = `a ${target.name}`;
  return (
    <>
      {action === 'handoff.approved' ? 'approved' : 'rejected'}{' '}
      {can(`${target.name}s`, 'read') ? <a href={`#/handoffs/${target.id}`}>{what}</a> : what}
    </>
  );
}

const topics: Record<string, string> = {
  name: 'name',
  permissions: 'permissions',
  certificateFingerprints: 'certificates',
  certificateNames: 'certificates',
  publicKeys: 'public keys',
  people: 'people',
};

function topicsOf(changes: readonly Change[]): string[] {
  return [...new Set(changes.map(({ field }) => topics[field] ?? 'limits'))];
}

function shownChanges({ action, changes }: AuditEvent): Change[] {
  const isTold = (field: string) =>
    field === 'apiKey' || (field === 'enabled' && action !== 'consumer.created');
  const isCreated = action === 'consumer.created';
  return changes.filter(({ field }) => !isTold(field) && !(isCreated && field === 'name'));
}

function ChangeInWords({ change: { field, from, to }, event }: EventProps & { change: Change }): VNode {
  const label = labelOf(field);
  // Abbreviations keep their capitals.
  const name = /^[A-Z][a-z]/.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label;
  return (
    <>
      <span class="quiet">{name}</span>{' '}
      {event.action !== 'consumer.created' && (
        <>
          <Value>{valueInWords(field, from)}</Value> →{' '}
        </>
      )}
      <Value>{valueInWords(field, to)}</Value>
    </>
  );
}

const mostShown = 240;

/** A long value is folded. */
function Value({ children: text }: { children: string }): VNode {
  if (text.length <= mostShown) return <bdi class="value">{text}</bdi>;
  return (
    <details>
      <summary>{text.slice(0, mostShown)}…</summary>
      {text}
    </details>
  );
}

/** Words for a field that isn't set. */
const unset: Record<string, string> = {
  rateLimitPerMinute: 'default',
  allowedAddresses: 'any',
  validUntil: 'no end date',
  allowance: 'unlimited',
};

function valueInWords(field: string, value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return unset[field] ?? 'none';
  return inWords(value);
}

function inWords(value: unknown): string {
  if (Array.isArray(value)) return listInWords(value);
  if (isObject(value)) return objectInWords(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return value.toLocaleString('en');
  const text = String(value);
  return isMoment.test(text) ? dateAndTime(Date.parse(text)) : text;
}

const isMoment = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

function listInWords(values: unknown[]): string {
  return values.every(isPermission) ? permissionsInWords(values).join('; ') : values.map(inWords).join(', ');
}

/** An allowance, or a claim of people. */
function objectInWords({ requests, per, claim, value, ...others }: Record<string, unknown>): string {
  if (per !== undefined) return `${inWords(requests)} per ${inWords(per)}`;
  if (claim !== undefined) return `${inWords(claim)}=${inWords(value)}`;
  return JSON.stringify(others);
}

function isPermission(value: unknown): value is Permission {
  return isObject(value) && typeof value['resource'] === 'string' && Array.isArray(value['actions']);
}
