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
import {
  isMemberEvent,
  type ListedWebhook,
  type WebhookState,
  WebhooksTable,
  webhookStates,
} from './webhooks-table.ts';

const purpose = 'handoff webhooks';

/**
 * Adds `webhooks list` and `webhooks replay ID`, which work on the database beside a running service; the embedded
 * database is its service's alone. Bad input ends the process with code 2, an unknown id with code 1.
 */
export function registerWebhookCommands(program: Command, load: LoadSettings): void {
  const group = addGroup(program, {
    name: 'webhooks',
    alias: 'webhook',
    heading: 'records',
    description: 'webhooks received from Salesforce',
  });
  const find = async (options: { state?: string }) => {
    const state = checkChoice('--state', webhookStates, options.state);
    return readDatabase(load, purpose, (database) => new WebhooksTable(database).list(state, listedAtOnce));
  };
  addList(group, 'received webhooks', find, showWebhooks).option(
    '--state <state>',
    `only webhooks in this state: ${webhookStates.join(', ')}`,
  );
  addIdCommand(group, {
    name: 'replay',
    description: 'process a dead or already processed webhook again',
    id: ['<id>', "the webhook's webhook-id"],
    run: async (id) => ({
      webhook_id: id,
      state: await withWebhooks(load, (webhooks) => replay(webhooks, id)),
    }),
    show: showReplay,
  });
}

/** The state that it has now. Throws `CommandFailed` where there is nothing to replay. */
async function replay(webhooks: WebhooksTable, id: string): Promise<WebhookState> {
  const found = await webhooks.replay(id);
  if (found === undefined) throw new CommandFailed(`There's no webhook ${id}.`, exitNotFound);
  if (isMemberEvent(found.type)) return 'received';
  throw new CommandFailed(
    `Webhook ${id} has the type ${found.type}, which the gateway ignores, so there is nothing to process.`,
    exitNotFound,
  );
}

function withWebhooks<T>(load: LoadSettings, work: (webhooks: WebhooksTable) => Promise<T>): Promise<T> {
  return withDatabase(load, purpose, (database) => work(new WebhooksTable(database)));
}

function showReplay({ webhook_id }: { webhook_id: string }): string {
  return `A running gateway will process webhook ${webhook_id} again within a minute.`;
}

/** Without the payload, which may hold personal data. */
function showWebhooks(webhooks: ListedWebhook[]): string {
  if (webhooks.length === 0) return 'No webhooks found.';
  const header = ['state', 'received', 'type', 'member', 'attempts', 'last error', 'webhook-id'];
  const rows = webhooks.map((webhook) => [
    webhook.came_late ? `${webhook.state}, late` : webhook.state,
    webhook.received_at.toISOString(),
    webhook.type,
    webhook.member_id ?? '-',
    String(webhook.attempts),
    webhook.last_error ?? '-',
    webhook.webhook_id,
  ]);
  return table([header, ...rows]);
}
