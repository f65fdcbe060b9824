import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after } from 'node:test';
import type { Finding } from '../../src/cli/doctor.ts';
import { CommandLine } from './command-line.ts';

interface Visit {
  code: number;
  output: string;
  ok: boolean;
  find(name: string): Finding;
}

/** Runs `handoff doctor` with the file `config.json` of a data folder, in one process until the tests are over. */
export function useDoctor() {
  const commands = new CommandLine();
  after(() => commands.stop());

  async function run(dataDir: string, env: NodeJS.ProcessEnv, ...args: string[]) {
    const command = ['--config', join(dataDir, 'config.json'), 'doctor', ...args];
    const { code, stdout, stderr } = await commands.run(command, { env: { DATA_DIR: dataDir, ...env } });
    assert.equal(stderr, '');
    return { code, output: stdout };
  }

  /** With `--json`. */
  async function visit(dataDir: string, env: NodeJS.ProcessEnv): Promise<Visit> {
    const { code, output } = await run(dataDir, env, '--json');
    const { ok, checks } = JSON.parse(output) as { ok: boolean; checks: Finding[] };
    const find = (name: string) => checks.find((finding) => finding.name === name) as Finding;
    return { code, output, ok, find };
  }

  return { commands, run, visit };
}
