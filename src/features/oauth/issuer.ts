import type { Settings } from '../../platform/settings/table.ts';

/** Whether tokens are issued. In production only with an address: clients would be sent to one that only this machine has. */
export function issuesTokens({ production, publicUrl }: Pick<Settings, 'production' | 'publicUrl'>): boolean {
  return !production || publicUrl !== undefined;
}
