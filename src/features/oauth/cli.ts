import type { Command } from 'commander';
import { wallMs } from '../../platform/base/chance.ts';
import { addGroup, type LoadSettings, print, runCommand } from '../../platform/command-line/command.ts';
import { createLog } from '../../platform/observability/log.ts';
import { openSecretsManager } from '../../platform/secrets/secrets.ts';
import { addSigningKey } from './signing-keys.ts';

export function registerKeyCommands(program: Command, load: LoadSettings): void {
  addGroup(program, { name: 'keys', heading: 'access', description: 'keys that sign access tokens' })
    .command('rotate')
    .description('make a new signing key; tokens signed with the old one stay valid until they expire')
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
          ({ kid, signs_from }) => `The new key ${kid} signs tokens from ${signs_from}.`,
        );
      }),
    );
}
