import { Type } from 'typebox';
import { like, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const consoleSettings = {
  'crm.recordUrl': setting(
    'CRM_RECORD_URL',
    like('^https?://[^\\s{}]+\\{id\\}[^\\s{}]*$', 'an http:// or https:// URL with {id} in it'),
    undefined,
    "Address of a record's page in the CRM, with `{id}` in place of its id, for links of the console; `<instance_url>/{id}` when not set.",
  ),
  'console.enabled': setting(
    'CONSOLE_ENABLED',
    Type.Boolean(),
    ({ production }) => !production,
    'Whether the console is served at `/console/`; true when not set, in production false. See console.md.',
  ),
};

export type ConsoleSettings = SettingsOf<typeof consoleSettings>;

export const consolePart: SettingsPart = { table: consoleSettings };
