import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { createAttemptIds } from './attempt.ts';

export const auditActions = [
  'consumer.created',
  'consumer.updated',
  'consumer.rotated',
  'consumer.disabled',
  'consumer.enabled',
  'consumer.revoked',
  'handoff.approved',
  'handoff.rejected',
] as const;
export type AuditAction = (typeof auditActions)[number];

export const authorTypes = ['consumer', 'command_line', 'service'] as const;

const textOrNull = Type.Union([Type.String(), Type.Null()]);

const eventSchema = Type.Object({
  /** UUID of version 7: the order of ids is that of time. */
  id: Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' }),
  /** RFC 3339 UTC with milliseconds. */
  timestamp: Type.String(),
  action: Type.Enum(auditActions),
  actor: Type.Object({
    type: Type.Enum(authorTypes),
    id: Type.String(),
    name: Type.String(),
    person: textOrNull,
    verified: Type.Boolean(),
  }),
  target: Type.Object({ id: Type.String(), name: Type.String() }),
  address: textOrNull,
  user_agent: textOrNull,
  request_id: textOrNull,
  changes: Type.Array(Type.Object({ field: Type.String(), from: Type.Unknown(), to: Type.Unknown() })),
});

export type AuditEvent = Static<typeof eventSchema>;

export type Author = Pick<AuditEvent, 'actor' | 'address' | 'user_agent' | 'request_id'>;

const events = Compile(eventSchema);
const newId = createAttemptIds();

/** A new event of this moment, in milliseconds since 1970. */
export function newAuditEvent(
  facts: Author & Pick<AuditEvent, 'action' | 'target' | 'changes'>,
  now: number,
): AuditEvent {
  const timestamp = new Date(now).toISOString();
  const { action, actor, target, address, user_agent, request_id, changes } = facts;
  return { id: newId(timestamp), timestamp, action, actor, target, address, user_agent, request_id, changes };
}

/** The events among these; what a newer version or a hand has written otherwise is left out. */
export function readAuditEvents(values: readonly unknown[]): AuditEvent[] {
  return values.filter((value): value is AuditEvent => events.Check(value));
}
