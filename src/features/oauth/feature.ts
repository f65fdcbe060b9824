import { type Core, defineFeature, type Started } from '../../feature.ts';
import { bearerTokens, caughtUp } from '../../identity/consumers/authentication.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { createAccessTokens } from './access-tokens.ts';
import { AssertionsTable } from './assertions-table.ts';
import { registerKeyCommands } from './cli.ts';
import { createClientAuthentication } from './client-authentication.ts';
import { signingKeysCheck } from './doctor.ts';
import { issuesTokens } from './issuer.ts';
import { type MetadataServices, metadataRoutes, resourceMetadataOf } from './routes/metadata.ts';
import { type TokenServices, tokenRoute } from './routes/token.ts';
import { SigningKeys } from './signing-keys.ts';

type Parts = TokenServices & MetadataServices;

export const oauth = defineFeature({
  name: 'oauth',
  tags: { Tokens: 'Access tokens, by client credentials of OAuth 2.0.' },
  start,
  routes: (parts: Parts, _cursors, all) => [tokenRoute(parts), ...metadataRoutes(parts, all)],
  commands: registerKeyCommands,
  checks: [signingKeysCheck],
});

async function start(core: Core): Promise<Started<Parts>> {
  const { settings, consumers, offers, opened, publicUrl } = core;
  if (!issuesTokens(settings)) return { routes: null };
  const clock = wallMs;
  const keys = new SigningKeys({
    ...core,
    ...settings,
    refreshSeconds: settings.secretsRefreshSeconds,
    clock,
  });
  opened.defer(() => keys.stop());
  await keys.start();
  const { directory, authenticate } = consumers;
  const tokens = createAccessTokens({ keys, directory, publicUrl, clock });
  offers.make(bearerTokens, {
    authenticate: caughtUp((token: string) => tokens.authenticate(token), directory),
    metadataUrl: (path) => publicUrl() + resourceMetadataOf(path),
  });
  const assertions = new AssertionsTable(core.database);
  const authenticateClient = createClientAuthentication({
    authenticate,
    directory,
    publicUrl,
    clock,
    useOnce: (...assertion) => assertions.useOnce(...assertion),
  });
  return {
    routes: { tokens, authenticateClient, publicUrl, keys },
    jobs: [
      {
        name: 'clear-assertions',
        cron: '52 * * * *',
        steps: { assertions: (signal) => assertions.deleteExpired(signal) },
      },
    ],
  };
}
