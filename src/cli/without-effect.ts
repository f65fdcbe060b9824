import type { Log } from '../observability/log.ts';
import type { Settings } from '../settings/settings.ts';

export function warnOfSettingsWithoutEffect({ withoutEffect }: Settings, log: Log): void {
  if (withoutEffect.length > 0) {
    log.warn({ settings: withoutEffect }, 'these settings have no effect in this version yet');
  }
}
