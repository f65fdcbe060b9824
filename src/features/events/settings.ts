import { Type } from 'typebox';
import { seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const eventsSettings = {
  'changes.pollSeconds': setting(
    'CHANGES_POLL_SECONDS',
    seconds(0, 3600),
    (earlier) => (earlier['crm.loginUrl'] === undefined ? 5 : 60),
    'How often the gateway reads changes from Salesforce, with one call; defaults to 60, with the simulated org 5. 0 turns events off.',
  ),
  'changes.minimumSeconds': setting(
    'CHANGES_MINIMUM_SECONDS',
    seconds(0.1, 3600),
    (earlier) => (earlier['crm.loginUrl'] === undefined ? 2 : 15),
    'Shortest time between two such reads; defaults to 15, with the simulated org 2.',
  ),
  'changes.retentionDays': setting(
    'CHANGES_RETENTION_DAYS',
    Type.Number({ exclusiveMinimum: 0, maximum: 3650 }),
    30,
    'How long the gateway keeps events.',
  ),
};

export type EventsSettings = SettingsOf<typeof eventsSettings>;

export const eventsPart: SettingsPart = { table: eventsSettings };
