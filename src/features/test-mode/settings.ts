import { Type } from 'typebox';
import { setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const testModeSettings = {
  'testKeys.enabled': setting(
    'TEST_KEYS_ENABLED',
    Type.Boolean(),
    true,
    'Whether the credentials of test consumers are accepted. They work on records in the database of the service, never on the CRM.',
  ),
};

export type TestModeSettings = SettingsOf<typeof testModeSettings>;

export const testModePart: SettingsPart = { table: testModeSettings };
