import type { Command } from 'commander';
import {
  addGroup,
  addList,
  checkChoice,
  type LoadSettings,
  listedAtOnce,
  readDatabase,
} from '../../platform/command-line/command.ts';
import { type ListedPlan, type ReservationStatus, reservationStatuses } from './plan.ts';
import { PlansTable } from './plans-table.ts';

/**
 * Adds `reservations list`, which reads the database beside a running service. A wrong status ends the process with code 2.
 */
export function registerReservationCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'reservations',
    alias: 'reservation',
    heading: 'records',
    description: 'table reservations, and those that need attention',
  });
  const find = async (options: { status?: string }) =>
    list(load, checkChoice('--status', reservationStatuses, options.status));
  addList(group, 'reservations', find, show).option(
    '--status <status>',
    `only reservations with this status: ${reservationStatuses.join(', ')}`,
  );
}

async function list(load: LoadSettings, status: ReservationStatus | undefined) {
  const plans = await readDatabase(load, 'handoff reservation', (database) =>
    new PlansTable(database).list({ status, limit: listedAtOnce }, 'all'),
  ).catch((error: unknown) => {
    // The API hides the cause; the caller of a command needs it.
    throw error instanceof Error && error.cause !== undefined ? error.cause : error;
  });
  return plans.map(toListed);
}

/** A reservation as operators see it: how far it is, and what holds it up. No data of the guest. */
function toListed(plan: ListedPlan) {
  return {
    id: plan.id,
    status: plan.status,
    state: plan.state,
    attention: plan.attention ?? null,
    partner: plan.partner,
    booking_id: plan.table?.reference ?? null,
    failed_attempts: plan.attempts,
    created_at: plan.createdAt.toISOString(),
    updated_at: plan.updatedAt.toISOString(),
  };
}

function show(listed: ReturnType<typeof toListed>[]): string {
  if (listed.length === 0) return 'No reservations found.';
  return listed
    .map((one) => {
      const facts = [
        one.id,
        one.status.padEnd(15),
        one.updated_at,
        one.state.padEnd(20),
        one.booking_id ?? '-',
      ];
      return [facts.join('  '), ...(one.attention === null ? [] : [`    ${one.attention}`])].join('\n');
    })
    .join('\n');
}
