import { like, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

const discoverySettings = {
  securityContact: setting(
    'SECURITY_CONTACT',
    like('^(?:https://|mailto:|tel:)[^\\s]+$', 'an https://, mailto: or tel: URI'),
    undefined,
    'Where to report vulnerabilities: `/.well-known/security.txt` has it.',
  ),
};

export type DiscoverySettings = SettingsOf<typeof discoverySettings>;

export const discoveryPart: SettingsPart = { table: discoverySettings };
