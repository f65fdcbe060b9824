import { Type } from 'typebox';
import { isLoopback } from '../../platform/base/networks.ts';
import { like, setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const consoleSettings = {
  'crm.recordUrl': setting(
    'CRM_RECORD_URL',
    like('^https?://[^\\s{}]+\\{id\\}[^\\s{}]*$', 'an http:// or https:// URL with {id} in it'),
    undefined,
    "A record's page in Salesforce, for the console's links; defaults to `<instance_url>/{id}`.",
  ),
  'console.enabled': setting(
    'CONSOLE_ENABLED',
    Type.Boolean(),
    ({ production }) => !production,
    'Serves the console at `/console/`; defaults to true outside production. See console.md.',
  ),
  'console.resultOrigins': setting(
    'CONSOLE_RESULT_ORIGINS',
    Type.Array(text, { maxItems: 32 }),
    [],
    'Origins whose pages may pass results to the console, such as `https://search.example.com`. See console.md.',
  ),
};

export type ConsoleSettings = SettingsOf<typeof consoleSettings>;

export const consolePart: SettingsPart = {
  table: consoleSettings,
  // One that is misspelt would let nobody in, or somebody else.
  check: ({ raw, production, named }) =>
    ((raw['console.resultOrigins'] ?? []) as string[]).flatMap((origin) => {
      const fault = faultOf(origin, production);
      return fault === undefined
        ? []
        : [`${named('console.resultOrigins')}: ${JSON.stringify(origin)} ${fault}`];
    }),
};

function faultOf(origin: string, production: boolean): string | undefined {
  const url = URL.parse(origin);
  if (url === null || !/^https?:$/.test(url.protocol))
    return "isn't an origin such as https://search.example.com";
  if (url.origin !== origin) return `isn't an origin: write ${url.origin}`;
  if (url.protocol === 'https:' || (isLoopback(url) && !production)) return undefined;
  return production ? 'must begin with https://' : 'must begin with https://, or name this machine';
}
