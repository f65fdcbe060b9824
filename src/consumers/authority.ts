import type { Author } from '../audit/audit-event.ts';
import { holdAnotherAdministrator, isAdministrator, type OtherAdministrators } from './administrators.ts';
import { everyPermission, requireUnknownWithin, requireWithin } from './ceiling.ts';
import type { Consumer } from './consumer.ts';
import type { VersionedConsumer } from './consumer-store.ts';
import { BrokenConsumer } from './stored-consumer.ts';

/** What binds a change by the API, checked against the record just before it is written; the command line has none. */
export interface Authority {
  /** Nobody changes more than they have. */
  caller: Consumer;
  /** The same, with what events tell of the request. */
  author: Author;
  /** Throws what forbids the change. */
  precondition?: (consumer: Consumer) => void;
}

/**
 * Throws `Problem` permission_denied for what exceeds the caller's permissions, conflict for what would leave no
 * administrator, and what the precondition does. `after`: null where the consumer is deleted.
 */
export async function checkAuthority(
  { caller, precondition }: Authority,
  before: Consumer,
  after: Consumer | null,
  others: OtherAdministrators,
): Promise<void> {
  requireWithin(caller, [...before.permissions, ...(after?.permissions ?? [])]);
  requireUnknownWithin(caller, before.unknownPermissions);
  precondition?.(before);
  const endsAdministrator = isAdministrator(before) && !(after && isAdministrator(after));
  if (endsAdministrator) await holdAnotherAdministrator(before.id, others);
}

/**
 * The version of the record that may be deleted; undefined for a broken one, which may have any permission. Throws as
 * above.
 */
export async function checkRevocation(
  authority: Authority,
  find: () => Promise<VersionedConsumer>,
  others: OtherAdministrators,
): Promise<string | undefined> {
  try {
    const { consumer, version } = await find();
    await checkAuthority(authority, consumer, null, others);
    return version;
  } catch (error) {
    if (!(error instanceof BrokenConsumer) || authority.precondition) throw error;
    requireWithin(authority.caller, everyPermission);
    return undefined;
  }
}
