import { Type } from 'typebox';
import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const readCopySettings = {
  'copy.enabled': setting(
    'COPY_ENABLED',
    Type.Boolean(),
    false,
    'Copies records to the database, for reads that accept an older answer. Needs `changes.pollSeconds` over 0; the same for all replicas. See copy.md.',
  ),
  'copy.defaultMaxAgeSeconds': setting(
    'COPY_DEFAULT_MAX_AGE_SECONDS',
    seconds(0, 86_400),
    0,
    'How old answers from the copy may be without `Cache-Control`; 0: Salesforce is asked.',
  ),
};

export type ReadCopySettings = SettingsOf<typeof readCopySettings>;

export const readCopyPart: SettingsPart = {
  table: readCopySettings,
  // What nobody reads cannot be copied.
  check({ raw, named }) {
    if (raw['copy.enabled'] !== true || raw['changes.pollSeconds'] !== 0) return [];
    return [
      `${named('copy.enabled')} needs ${named('changes.pollSeconds')} over 0: the reader of changes keeps the copy`,
    ];
  },
};
