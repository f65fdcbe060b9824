import type { Command } from 'commander';
import {
  addGroup,
  addIdCommand,
  addList,
  CommandFailed,
  checkChoice,
  exitNotFound,
  type LoadSettings,
  listedAtOnce,
  readDatabase,
  table,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { DeliveriesTable, type ListedDelivery } from './deliveries-table.ts';
import { type Delivery, deliveryStatuses } from './endpoint.ts';

const purpose = 'handoff deliveries';

/**
 * Adds `deliveries list` and `deliveries resend ID`, which work on the database beside a running service; the embedded
 * database is its service's alone. Bad input ends the process with code 2, an unknown id with code 1.
 */
export function registerDeliveryCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'deliveries',
    alias: 'delivery',
    heading: 'records',
    description: 'webhooks sent to partners, and those still waiting',
  });
  const find = async (options: { status?: string; endpoint?: string }) => {
    const status = checkChoice('--status', deliveryStatuses, options.status);
    return readDatabase(load, purpose, (database) =>
      new DeliveriesTable(database).listAll(status, options.endpoint, listedAtOnce),
    );
  };
  addList(group, 'deliveries', find, showDeliveries)
    .option('--status <status>', `only deliveries with this status: ${deliveryStatuses.join(', ')}`)
    .option('--endpoint <id>', 'only deliveries to this webhook endpoint');
  addIdCommand(group, {
    name: 'resend',
    description: 'send a delivery again, whatever its status',
    id: ['<id>', "the delivery's id, dlv_..."],
    async run(id) {
      const delivery = await withDeliveries(load, (deliveries) => deliveries.resend(id));
      if (delivery) return delivery;
      throw new CommandFailed(`There's no delivery ${id} to an enabled endpoint.`, exitNotFound);
    },
    show: showResent,
  });
}

function withDeliveries<T>(
  load: LoadSettings,
  work: (deliveries: DeliveriesTable) => Promise<T>,
): Promise<T> {
  return withDatabase(load, purpose, (database) => work(new DeliveriesTable(database)));
}

function showResent({ id }: Delivery): string {
  return `A running gateway will send delivery ${id} again within seconds.`;
}

function showDeliveries(deliveries: ListedDelivery[]): string {
  if (deliveries.length === 0) return 'No deliveries found.';
  const header = ['status', 'created', 'type', 'event', 'attempts', 'last error', 'endpoint', 'delivery'];
  const rows = deliveries.map(({ attempts, ...delivery }) => [
    delivery.status,
    delivery.created_at.toISOString(),
    delivery.event_type,
    delivery.event_id,
    String(attempts.length),
    attempts.at(-1)?.error ?? '-',
    delivery.endpoint_id,
    delivery.id,
  ]);
  return table([header, ...rows]);
}
