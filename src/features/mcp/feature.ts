import { type Core, defineFeature, type Started } from '../../feature.ts';
import { IntentsTable } from './intents-table.ts';
import { type McpParts, mcpRoute } from './routes/mcp.ts';
import { type McpSettings, mcpPart } from './settings.ts';

export const mcp = defineFeature({
  name: 'mcp',
  settings: mcpPart,
  tags: { Agents: 'Tools for programs that act for people.' },
  start,
  routes: (parts: McpParts, _cursors, all) => [mcpRoute(parts, all)],
});

function start({ settings, publicUrl, database }: Core<McpSettings>): Started<McpParts> {
  const intents = new IntentsTable(database);
  // An hour longer than a key: no key outlives what is known of its arguments.
  const keptHours = settings.idempotencyRetentionHours + 1;
  return {
    routes: settings.mcp.enabled ? { publicUrl, intents } : null,
    jobs: [
      {
        name: 'clear-intents',
        cron: '37 * * * *',
        steps: { intents: (signal) => intents.deleteOlderThan(keptHours, signal) },
      },
    ],
  };
}
