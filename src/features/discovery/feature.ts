import { type Core, defineFeature, type Started } from '../../feature.ts';
import { like, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { type DiscoveryParts, discoveryRoutes } from './routes.ts';

const discoverySettings = {
  securityContact: setting(
    'SECURITY_CONTACT',
    like('^(?:https://|mailto:|tel:)[^\\s]+$', 'an https://, mailto: or tel: URI'),
    undefined,
    'Where to report vulnerabilities: `/.well-known/security.txt` has it.',
  ),
};

type DiscoverySettings = SettingsOf<typeof discoverySettings>;

const discoveryPart: SettingsPart = { table: discoverySettings };

export const discovery = defineFeature({
  name: 'discovery',
  settings: discoveryPart,
  start,
  routes: (parts: DiscoveryParts, _cursors, all) => discoveryRoutes(parts, all),
});

function start({ settings, publicUrl }: Core<DiscoverySettings>): Started<DiscoveryParts> {
  return { routes: { publicUrl, securityContact: settings.securityContact } };
}
