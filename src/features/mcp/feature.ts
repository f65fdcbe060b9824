import { type Core, defineFeature, type Started } from '../../feature.ts';
import { type McpParts, mcpRoute } from './routes/mcp.ts';
import { type McpSettings, mcpPart } from './settings.ts';

/** The routes that declare a tool, for programs that act for people, by the Model Context Protocol. */
export const mcp = defineFeature({
  name: 'mcp',
  settings: mcpPart,
  tags: { Agents: 'Tools for programs that act for people.' },
  start,
  routes: (parts: McpParts, _cursors, all) => [mcpRoute(parts, all)],
});

function start({ settings, publicUrl }: Core<McpSettings>): Started<McpParts> {
  return { routes: settings.mcp.enabled ? { publicUrl } : null };
}
