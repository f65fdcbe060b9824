import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CommandLine } from '../../support/command-line.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { usePostgres } from '../../support/postgres.ts';

const postgres = await usePostgres();

describe('handoff handoff', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  const commands = new CommandLine();
  after(() => commands.stop());

  before(async () => {
    gateway = await startGateway({ DATABASE_URL: postgres?.url });
  });
  after(() => gateway.stop());

  const run = (...args: string[]) => {
    const env = { DATA_DIR: gateway.dataDir, DATABASE_URL: postgres?.url };
    return commands.run(['--config', join(gateway.dataDir, 'config.json'), 'handoff', ...args], { env });
  };

  test('lists, tries again and cancels beside a running service', async () => {
    assert.match((await run('list')).stdout, /No hand-offs found/);
    const externalId = await accept(gateway, { member_id: randomUUID() });
    await untilHandoff(gateway, externalId, ({ status }) => status === 'failed');
    const [listed] = JSON.parse((await run('list', '--status', 'failed', '--json')).stdout);
    assert.partialDeepStrictEqual(listed, {
      external_id: externalId,
      status: 'failed',
      code: 'member_not_found',
    });
    assert.match((await run('list')).stdout, new RegExp(`failed .*member_not_found +${externalId}`));

    const retried = await run('retry', externalId.toUpperCase());
    assert.deepEqual([retried.code, retried.stderr], [0, '']);
    await untilHandoff(gateway, externalId, ({ status, attempts }) => status === 'failed' && attempts === 2);
    assert.equal((await run('cancel', externalId)).code, 0);
    assert.equal((await run('cancel', externalId)).code, 0);
    const refused = await run('retry', externalId);
    assert.deepEqual([refused.code, /is cancelled, so you can't do this/.test(refused.stderr)], [1, true]);
    assert.equal((await run('cancel', randomUUID())).code, 1);
    assert.equal((await run('retry', 'x')).code, 2);
  });
});
