import { Type } from 'typebox';
import { setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const testModeSettings = {
  'testKeys.enabled': setting(
    'TEST_KEYS_ENABLED',
    Type.Boolean(),
    true,
    'Accepts the credentials of test consumers, which never reach Salesforce.',
  ),
};

export type TestModeSettings = SettingsOf<typeof testModeSettings>;

export const testModePart: SettingsPart = { table: testModeSettings };
