import { Type } from 'typebox';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { IntentsTable } from './intent.ts';
import { type McpParts, mcpRoute } from './routes/mcp.ts';

const mcpSettings = {
  'mcp.enabled': setting(
    'MCP_ENABLED',
    Type.Boolean(),
    true,
    'Serves the tools for agents at `/mcp`. See agents.md.',
  ),
};

type McpSettings = SettingsOf<typeof mcpSettings>;

const mcpPart: SettingsPart = { table: mcpSettings };

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
