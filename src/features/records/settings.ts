import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const recordsSettings = {
  memberCacheSeconds: setting(
    'MEMBER_CACHE_SECONDS',
    seconds(0, 300),
    300,
    'How long members are cached if no webhook reports a change; 0: off. Without effect with `copy.enabled`.',
  ),
};

export type RecordsSettings = SettingsOf<typeof recordsSettings>;

export const recordsPart: SettingsPart = { table: recordsSettings };
