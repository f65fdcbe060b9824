import { type Core, defineFeature, type Started } from '../../feature.ts';
import { type DiscoveryParts, discoveryRoutes } from './routes.ts';
import { type DiscoverySettings, discoveryPart } from './settings.ts';

export const discovery = defineFeature({
  name: 'discovery',
  settings: discoveryPart,
  start,
  routes: (parts: DiscoveryParts, _cursors, all) => discoveryRoutes(parts, all),
});

function start({ settings, publicUrl }: Core<DiscoverySettings>): Started<DiscoveryParts> {
  return { routes: { publicUrl, securityContact: settings.securityContact } };
}
