import type { Command } from 'commander';
import {
  addList,
  CommandFailed,
  type ConfigFile,
  checkChoice,
  exitNotFound,
  listedAtOnce,
  print,
  runCommand,
  table,
  withDatabase,
} from '../../platform/command-line/command.ts';
import { DeliveriesTable, type ListedDelivery } from './deliveries-table.ts';
import { type Delivery, deliveryStatuses } from './endpoint.ts';

/**
 * Adds `delivery list` and `delivery resend ID`, which work on the database beside a running service; the embedded
 * database is its service's alone. Bad input ends the process with code 2, an unknown id with code 1.
 */
export function registerDeliveryCommands(program: Command, configFile: ConfigFile): void {
  const group = program.command('delivery').description('events on their way to webhook endpoints');
  const find = async (options: { status?: string; endpoint?: string }) => {
    const status = checkChoice('--status', deliveryStatuses, options.status);
    return withDeliveries(configFile, (deliveries) =>
      deliveries.listAll(status, options.endpoint, listedAtOnce),
    );
  };
  addList(group, 'deliveries', find, showDeliveries)
    .option('--status <status>', `only those with this status: ${deliveryStatuses.join(', ')}`)
    .option('--endpoint <id>', 'only those to this webhook endpoint');
  group
    .command('resend')
    .description('send a delivery again, whatever became of it')
    .argument('<id>', 'its id')
    .option('--json', 'print JSON')
    .action((id: string, options: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        const delivery = await withDeliveries(configFile, (deliveries) => deliveries.resend(id));
        if (delivery) return print(options.json, delivery, showResent);
        throw new CommandFailed(`There is no delivery ${id} to an enabled endpoint.`, exitNotFound);
      }),
    );
}

function withDeliveries<T>(
  configFile: ConfigFile,
  work: (deliveries: DeliveriesTable) => Promise<T>,
): Promise<T> {
  return withDatabase(configFile, 'handoff delivery', (database) => work(new DeliveriesTable(database)));
}

function showResent({ id }: Delivery): string {
  return `The delivery ${id} is sent again, by a running service within a few seconds.`;
}

function showDeliveries(deliveries: ListedDelivery[]): string {
  if (deliveries.length === 0) return 'There are no such deliveries.';
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
