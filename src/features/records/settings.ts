import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const recordsSettings = {
  memberCacheSeconds: setting(
    'MEMBER_CACHE_SECONDS',
    seconds(0, 300),
    300,
    'How long a member that was read may be cached, if no webhook says earlier that it has changed; 0 turns it off. Without effect where `copy.enabled` is true.',
  ),
};

export type RecordsSettings = SettingsOf<typeof recordsSettings>;

export const recordsPart: SettingsPart = { table: recordsSettings };
