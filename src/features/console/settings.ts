import { Type } from 'typebox';
import { isLoopback } from '../../platform/base/loopback.ts';
import { like, setting, text } from '../../platform/settings/setting.ts';
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
  'console.resultOrigins': setting(
    'CONSOLE_RESULT_ORIGINS',
    Type.Array(text, { maxItems: 32 }),
    [],
    'Origins of search programs whose pages may pass results to the console (comma separated), such as `https://search.example.com`; ' +
      'http only for this machine outside production. None when not set. See console.md.',
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
    return 'is not an origin such as https://search.example.com';
  if (url.origin !== origin) return `is not an origin: write ${url.origin}`;
  if (url.protocol === 'https:' || (isLoopback(url) && !production)) return undefined;
  return production ? 'must begin with https://' : 'must begin with https://, or name this machine';
}
