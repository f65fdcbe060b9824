import type { Crm } from './crm/crm.ts';
import { type Activity, createActivity } from './features/console/activity/activity.ts';
import { type ConsoleFiles, readConsoleFiles } from './features/console/console-files.ts';
import type { ConsoleServices } from './features/console/routes/console.ts';
import { version } from './platform/base/version.ts';
import type { SharedCache } from './platform/cache/shared-cache.ts';
import type { Metrics } from './platform/observability/metrics.ts';
import type { Settings } from './platform/settings/table.ts';

/** What the composition root has by then. */
interface Parts {
  settings: Settings;
  metrics: Metrics;
  /** What is opened here is closed through it. */
  opened: AsyncDisposableStack;
  cache: SharedCache;
  crm: Crm;
}

/** The console, where it is enabled, and the series behind its plots. */
export function openConsole({ settings, metrics, opened, cache, crm }: Parts): {
  console: ConsoleServices | null;
  activity: Activity;
} {
  const { environment, production } = settings;
  const activity = createActivity({ cache, environment, metrics });
  opened.defer(() => activity.stop());
  if (!settings.console.enabled) return { console: null, activity };
  let files: Promise<ConsoleFiles> | undefined;
  const console: ConsoleServices = {
    files: () => {
      files ??= readConsoleFiles(!production);
      return files;
    },
    facts: async () => ({ environment, version, record_url: await recordUrl(settings, crm) }),
  };
  return { console, activity };
}

/** Where the CRM shows a record, with `{id}`; null before the CRM has told its address. */
async function recordUrl(settings: Settings, crm: Crm): Promise<string | null> {
  if (settings.crm.recordUrl !== undefined) return settings.crm.recordUrl;
  const instanceUrl = await crm.tokens.instanceUrl();
  return instanceUrl === undefined ? null : `${instanceUrl}/{id}`;
}
