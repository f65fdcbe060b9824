import type { SettingKey } from './table.ts';

/** Settings that were renamed. The former name is refused with a message that has the new one. */
export const renamedSettings: readonly { key: SettingKey; formerKey: string; formerEnv: string }[] = [
  { key: 'crm.maxWaitMs', formerKey: 'crm.patienceMs', formerEnv: 'CRM_PATIENCE_MS' },
  {
    key: 'handoff.whenCrmIsUnavailable',
    formerKey: 'handoff.whenCrmIsAway',
    formerEnv: 'HANDOFF_WHEN_CRM_IS_AWAY',
  },
];
