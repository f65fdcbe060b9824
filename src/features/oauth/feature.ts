import type { Command } from 'commander';
import {
  type Core,
  type DoctorCheck,
  defineFeature,
  NothingToCheck,
  type Started,
  secretsOf,
  settingsOf,
} from '../../feature.ts';
import { bearerTokens, caughtUp } from '../../identity/consumers/authentication.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { addGroup, type LoadSettings, print, runCommand } from '../../platform/command-line/command.ts';
import { createLog } from '../../platform/observability/log.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import type { Settings } from '../../platform/settings/table.ts';
import { createAccessTokens } from './access-tokens.ts';
import { AssertionsTable, createClientAuthentication } from './client-authentication.ts';
import { type MetadataServices, metadataRoutes, resourceMetadataOf } from './routes/metadata.ts';
import { type TokenServices, tokenRoute } from './routes/token.ts';
import { addSigningKey, readSigningKeys, SigningKeys, signingAt, signingKeysName } from './signing-keys.ts';

/** The keys that sign tokens. Makes none: that is left to the service. */
const signingKeysCheck: DoctorCheck = {
  name: 'token keys',
  needs: ['secrets manager'],
  async run(context) {
    const settings = settingsOf(context);
    if (!issuesTokens(settings))
      throw new NothingToCheck("publicUrl isn't set, so the gateway issues no tokens.");
    const name = signingKeysName(settings.environment);
    const found = await secretsOf(context).read(name);
    if (found === undefined) return `none yet; the gateway creates the first one in ${name}`;
    const keys = read(name, found.value);
    return `${keys.length === 1 ? 'one' : keys.length} in ${name}; signing with ${signingAt(keys, wallMs())?.kid}`;
  },
};

function read(name: string, value: string) {
  try {
    return readSigningKeys(value);
  } catch (cause) {
    throw new Error(`Can't use ${name}. ${(cause as Error).message}`, { cause });
  }
}

function registerKeyCommands(program: Command, load: LoadSettings): void {
  addGroup(program, { name: 'keys', heading: 'access', description: 'keys for signing access tokens' })
    .command('rotate')
    .description('create a new signing key; tokens signed with the old one stay valid until they expire')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: true }, command: Command) =>
      runCommand(command, async () => {
        const settings = load();
        await using opened = new AsyncDisposableStack();
        const secrets = await openSecretsManager(settings, createLog('silent'));
        opened.defer(() => secrets.close());
        const { environment, secretsRefreshSeconds } = settings;
        const { key } = await addSigningKey(secrets, environment, wallMs(), secretsRefreshSeconds);
        print(
          json,
          { kid: key.kid, signs_from: key.signs_from },
          ({ kid, signs_from }) => `The new key ${kid} starts signing tokens at ${signs_from}.`,
        );
      }),
    );
}

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
    assertions,
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

/** Whether tokens are issued. In production only with an address: clients would be sent to one that only this machine has. */
function issuesTokens({ production, publicUrl }: Pick<Settings, 'production' | 'publicUrl'>): boolean {
  return !production || publicUrl !== undefined;
}
