import { Type } from 'typebox';
import { setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const mcpSettings = {
  'mcp.enabled': setting(
    'MCP_ENABLED',
    Type.Boolean(),
    true,
    'Serves the tools for agents at `/mcp`. See agents.md.',
  ),
};

export type McpSettings = SettingsOf<typeof mcpSettings>;

export const mcpPart: SettingsPart = { table: mcpSettings };
