import { userInfo } from 'node:os';
import { Problem } from '../../platform/base/problem.ts';
import { inTime } from '../../platform/base/waiting.ts';
import {
  type AuditAction,
  type AuditEvent,
  type Author,
  newAuditEvent,
  readAuditEvents,
} from '../audit/audit-event.ts';
import type { Consumer } from './consumer.ts';
import { entriesOf, type PersonClaim } from './people.ts';
import { type PublicKey, thumbprintOf } from './public-keys.ts';

/*
 * Every change of a consumer is written into its record together with the change itself: neither can be there without the
 * other, whatever is killed or unavailable. Replicas bring the events to the database and take them out of the record
 * then. A consumer that is revoked leaves its record behind, without credentials, until its events are there.
 */

/** Events that wait in one record; more are refused, since none may be dropped. */
const maxWaiting = 40;
/** Their bytes, so that the record fits what secrets managers hold (AWS: 64 KiB) beside its pairs. */
const maxWaitingBytes = 16 * 1024;
const forgottenAtOnce = 10;
/** How long a change waits for the archive, where there is no room without it. */
const keepMs = 5000;

/** Where changes of consumers are recorded. */
export interface EventArchive {
  /** Resolves once it has all of them, however long that takes. */
  keep(events: readonly AuditEvent[]): Promise<void>;
}

const fields = [
  'name',
  'permissions',
  'certificateFingerprints',
  'enabled',
  'validUntil',
  'rateLimitPerMinute',
  'allowedAddresses',
  'publicKeys',
  'crmShare',
  'certificateNames',
  'allowance',
  'people',
] as const;
const defaults: Partial<Record<(typeof fields)[number], unknown>> = {
  certificateFingerprints: [],
  enabled: true,
  validUntil: null,
  rateLimitPerMinute: null,
  allowedAddresses: [],
  publicKeys: [],
  crmShare: null,
  certificateNames: [],
  allowance: null,
  people: [],
};

export const service: Author = {
  actor: { type: 'service', id: 'service', name: 'service', person: null, verified: false },
  address: null,
  user_agent: null,
  request_id: null,
};

export function commandLine(): Author {
  const name = userName();
  return { ...service, actor: { type: 'command_line', id: name, name, person: null, verified: false } };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user that no list has.
    return process.env['USER'] ?? `uid ${String(process.getuid?.() ?? 'unknown')}`;
  }
}

/** The record with the event of its change; `before`: null for a new one. */
export function recordChange(
  before: Consumer | null,
  after: Consumer,
  author: Author,
  now: number,
  kind?: 'consumer.rotated' | 'consumer.revoked',
): Consumer {
  const changes =
    kind === 'consumer.revoked' ? [] : [...changesOf(before, after), ...changedKey(before, after, kind)];
  const { id, name } = after;
  const event = newAuditEvent(
    { ...author, action: kind ?? actionOf(before, after), target: { id, name }, changes },
    now,
  );
  return { ...after, auditEvents: [...(before?.auditEvents ?? []), event] };
}

/**
 * A changed record, without the events of earlier changes if they leave no room for the last one and the archive has them by now. Throws
 * `Problem` conflict where it can't have them.
 */
export async function withRoom(changed: Consumer, archive: EventArchive | undefined): Promise<Consumer> {
  if (hasRoom(changed)) return changed;
  const earlier = waitingEvents(changed).slice(0, -1);
  if (archive === undefined) throw tooManyWait();
  await inTime(archive.keep(earlier), keepMs, tooManyWait);
  const kept = withoutEvents(changed, new Set(earlier.map(({ id }) => id)));
  if (!hasRoom(kept)) throw tooManyWait();
  return kept;
}

function hasRoom({ auditEvents = [] }: Consumer): boolean {
  return (
    auditEvents.length <= 1 || (auditEvents.length <= maxWaiting && bytesOf(auditEvents) <= maxWaitingBytes)
  );
}

/** Whether so much waits that it is worth another write of the record once the archive has it. */
export function isWorthForgetting({ auditEvents = [] }: Consumer): boolean {
  return auditEvents.length >= forgottenAtOnce || bytesOf(auditEvents) >= maxWaitingBytes / 4;
}

/** Events that this version cannot read stay: the newer one that wrote them records them. */
export function withoutEvents(consumer: Consumer, ids: ReadonlySet<string>): Consumer {
  const { auditEvents = [] } = consumer;
  const left = auditEvents.filter((event) => !ids.has((event as { id?: string } | null)?.id ?? ''));
  return { ...consumer, auditEvents: left };
}

function bytesOf(events: readonly unknown[]): number {
  return Buffer.byteLength(JSON.stringify(events));
}

/** Oldest first. */
export function waitingEvents({ auditEvents = [] }: Consumer): AuditEvent[] {
  return readAuditEvents(auditEvents);
}

function actionOf(before: Consumer | null, after: Consumer): AuditAction {
  if (before === null) return 'consumer.created';
  const [was, is] = [before.enabled ?? true, after.enabled ?? true];
  if (was === is) return 'consumer.updated';
  return is ? 'consumer.enabled' : 'consumer.disabled';
}

function changesOf(before: Consumer | null, after: Consumer): AuditEvent['changes'] {
  return fields.flatMap((field) => {
    const from = before === null ? null : valueOf(before, field);
    const to = valueOf(after, field);
    const isSame = JSON.stringify(before === null ? (defaults[field] ?? null) : from) === JSON.stringify(to);
    return isSame ? [] : [{ field, from, to }];
  });
}

/** Takes thumbprints of public keys: whole keys would fill the record. */
function valueOf(consumer: Consumer, field: (typeof fields)[number]): unknown {
  const value = consumer[field] ?? defaults[field];
  if (field === 'people') return entriesOf(value as PersonClaim[]);
  return field === 'publicKeys' ? (value as PublicKey[]).map(thumbprintOf) : value;
}

function changedKey(before: Consumer | null, after: Consumer, kind?: string): AuditEvent['changes'] {
  if (before !== null && kind !== 'consumer.rotated') return [];
  const keyOf = (consumer: Consumer | null) =>
    consumer?.credentials.find(({ state }) => state === 'active')?.apiKey ?? null;
  return [{ field: 'apiKey', from: keyOf(before), to: keyOf(after) }];
}

function tooManyWait(): Problem {
  const detail =
    'Too many changes to this consumer are waiting for the database. A running gateway records them as soon as it ' +
    'reaches the database; try again then.';
  return new Problem('conflict', detail, { retryAfter: 5 });
}
