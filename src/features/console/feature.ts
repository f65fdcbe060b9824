import { Type } from 'typebox';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { sessions } from '../../identity/consumers/authentication.ts';
import { isLoopback } from '../../platform/base/networks.ts';
import { version } from '../../platform/base/version.ts';
import { like, setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { Activity } from './activity/activity.ts';
import { BreakIt } from './break-it/break-it.ts';
import { consolePath, type PageFacts, readConsoleFiles } from './console-files.ts';
import { type ActivityParts, activityRoute } from './routes/activity.ts';
import { breakItRoutes } from './routes/break-it.ts';
import { type ConsoleServices, consoleRoutes } from './routes/console.ts';

const consoleSettings = {
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

type ConsoleSettings = SettingsOf<typeof consoleSettings>;

const consolePart: SettingsPart = {
  table: consoleSettings,
  // A misspelt origin would let nobody in, or somebody else.
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

interface Parts extends ActivityParts {
  /** Null where it is not enabled: then its paths do not exist. */
  pages: ConsoleServices | null;
  /** Null where a system is a real one, and in production. */
  breakIt: BreakIt | null;
}

export const console = defineFeature({
  name: 'console',
  settings: consolePart,
  start,
  banner: ({ settings, url }) => ({
    doors: settings.console.enabled ? [['Console', `${url}${consolePath}`]] : [],
  }),
  routes: ({ pages, breakIt, ...parts }: Parts) => [
    activityRoute(parts),
    ...(pages ? consoleRoutes(pages) : []),
    ...(breakIt ? breakItRoutes(breakIt) : []),
  ],
});

function start(core: Core<ConsoleSettings>): Started<Parts> {
  const { settings, opened } = core;
  const { environment, production } = settings;
  const activity = new Activity({ ...core, environment });
  activity.start();
  opened.defer(() => activity.stop());
  const parts = { activity, budgetExhaustedAt: () => core.crm.budgetExhaustedAt() };
  if (!settings.console.enabled) return { routes: { ...parts, pages: null, breakIt: null } };
  const { resultOrigins } = settings.console;
  const breakIt = openBreakIt(core);
  const pages: ConsoleServices = {
    files: () =>
      readConsoleFiles(production, {
        environment,
        version,
        crm_name: settings.crm.name,
        people: peopleOf(core),
        result_origins: resultOrigins,
        can_break: breakIt !== null,
      }),
    resultOrigins,
    facts: async () => ({
      environment,
      version,
      crm_name: settings.crm.name,
      record_url: await recordUrl(core),
      people: peopleOf(core),
    }),
  };
  return { routes: { ...parts, pages, breakIt }, home: consolePath };
}

function openBreakIt(core: Core): BreakIt | null {
  const { settings, simulated, opened } = core;
  if (settings.production || simulated['crm'] === undefined) return null;
  const breakIt = new BreakIt(core);
  opened.defer(() => breakIt.close());
  return breakIt;
}

function peopleOf({ offers }: Core): PageFacts['people'] {
  const found = offers.find(sessions);
  return found ? { label: found.label, only: found.isOnly } : null;
}

/** Where the CRM shows a record, with `{id}`; null before the CRM has reported its address. */
async function recordUrl({ settings, crm }: Core<ConsoleSettings>): Promise<string | null> {
  if (settings.crm.recordUrl !== undefined) return settings.crm.recordUrl;
  const instanceUrl = await crm.tokens.instanceUrl();
  return instanceUrl === undefined ? null : `${instanceUrl}/{id}`;
}
