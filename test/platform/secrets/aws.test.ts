import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { loadSettings } from '../../../src/app/settings.ts';
import { createAwsSecretsManager } from '../../../src/platform/secrets/aws.ts';
import {
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../../src/platform/secrets/secrets-manager.ts';
import { SettingsError } from '../../../src/platform/settings/settings.ts';
import { lostSecretsConformance } from '../../conformance/lost-secrets.ts';
import { addLines, secretsManagerConformance } from '../../conformance/secrets-manager.ts';
import { type AwsFault, AwsSecretsServer } from '../../support/aws-secrets-server.ts';

/** All of what the SDK would otherwise take from the machine, among it the address of the metadata service. */
const environment = (server: AwsSecretsServer) => ({
  AWS_ENDPOINT_URL_SECRETS_MANAGER: server.url,
  AWS_REGION: 'eu-west-1',
  AWS_ACCESS_KEY_ID: server.accessKeyId,
  AWS_SECRET_ACCESS_KEY: 'hunter2-secret-key',
  AWS_SESSION_TOKEN: 'hunter2-session-token',
  AWS_EC2_METADATA_DISABLED: 'true',
  AWS_CONFIG_FILE: '/does/not/exist',
  AWS_SHARED_CREDENTIALS_FILE: '/does/not/exist',
});

const open: SecretsManager[] = [];
let server: AwsSecretsServer;
let stores = 0;

before(async () => {
  server = await AwsSecretsServer.start();
  Object.assign(process.env, environment(server));
});
afterEach(() => {
  server.fault = () => undefined;
  server.removesVersionsAtOnce = false;
});
after(async () => {
  for (const manager of open) await manager.close();
  await server.stop();
});

function connect(options: { prefix?: string; timeoutMs?: number } = {}): SecretsManager {
  const manager = createAwsSecretsManager({ prefix: 'gateway/', ...options });
  open.push(manager);
  return manager;
}

secretsManagerConformance(
  'aws',
  async () => {
    const prefix = `store-${++stores}/`;
    return {
      connect: async () => connect({ prefix }),
      addInAnotherProcess: async (name, count) => {
        const script = join(import.meta.dirname, 'add-lines-remotely.ts');
        await promisify(execFile)(process.execPath, [script, 'aws', name, String(count)], {
          env: { ...process.env, AWS_SECRETS_PREFIX: prefix },
        });
      },
    };
  },
  { reportsChanges: false },
);

lostSecretsConformance('aws', () => {
  const prefix = `store-${++stores}/`;
  return () => connect({ prefix });
});

describe('secrets in AWS Secrets Manager', () => {
  it('loses no write of many writers, also where versions without a stage vanish at once', async () => {
    server.removesVersionsAtOnce = true;
    const managers = Array.from({ length: 3 }, () => connect());
    await Promise.all(managers.map((manager) => addLines(manager, 'race', 5)));
    const text = (await managers[0]?.read('race'))?.value ?? '';
    assert.equal(new Set(text.trim().split('\n')).size, 15);
  });

  it('needs few stages, however often a secret is written', async () => {
    const manager = connect();
    let version = await manager.write('stages', '0', null);
    for (let i = 1; i < 30; i++) version = await manager.write('stages', String(i), version);
    assert.deepEqual(server.stagesOf('gateway/stages'), ['AWSCURRENT', 'AWSPREVIOUS', 'HANDOFF_NEXT']);
  });

  it('knows its own write again when only the answer was lost', async () => {
    const manager = connect();
    for (const action of ['CreateSecret', 'PutSecretValue', 'UpdateSecretVersionStage', 'DeleteSecret']) {
      let times = 0;
      server.fault = (call) => (call.action === action && times++ === 0 ? 'lost' : undefined);
      const first = await manager.write(`lost/${action}`, 'one', null);
      const second = await manager.write(`lost/${action}`, 'two', first);
      assert.deepEqual(await manager.read(`lost/${action}`), { value: 'two', version: second });
      await manager.delete(`lost/${action}`, second);
      assert.ok(times > 1, action);
    }
  });

  it('creates again while the service is still removing', async () => {
    const manager = connect();
    server.removalMs = 300;
    await manager.delete('again', await manager.write('again', 'one', null));
    assert.equal(await manager.read('again'), undefined);
    await manager.write('again', 'two', null);
    assert.equal((await connect().read('again'))?.value, 'two');
    server.removalMs = 20;
  });

  it('takes a secret that is being deleted for none, and lets nobody write over it', async () => {
    const manager = connect();
    const version = await manager.write('half', 'one', null);
    server.fault = ({ action }) => (action === 'DeleteSecret' ? 'denied' : undefined);
    await assert.rejects(manager.delete('half', version), /DeleteSecret: these credentials' IAM policy/);
    assert.equal(await manager.read('half'), undefined);
    await assert.rejects(manager.write('half', 'two', version), VersionConflict);
    await assert.rejects(manager.delete('half', version), VersionConflict);
  });

  it('takes a secret that is scheduled for deletion for none', async () => {
    const manager = connect();
    const version = await manager.write('scheduled', 'one', null);
    server.scheduleDeletion('gateway/scheduled');
    assert.equal(await manager.read('scheduled'), undefined);
    assert.deepEqual((await manager.list('scheduled')).length, 0);
    await assert.rejects(manager.write('scheduled', 'two', version), VersionConflict);
    await assert.rejects(manager.write('scheduled', 'two', null), /scheduled for deletion.*restore it/);
  });

  it('says what stands in the way of a secret that was made without a value', async () => {
    server.makeEmpty('gateway/empty-one');
    assert.equal(await connect().read('empty-one'), undefined);
    await assert.rejects(connect().write('empty-one', 'x', null), /has no value/);
  });

  it('lists page by page, and what it has seen itself where the list is behind', async () => {
    const [manager, other] = [connect({ prefix: 'many/' }), connect({ prefix: 'many/' })];
    const names = Array.from({ length: 230 }, (_, i) => `consumers/c${String(i).padStart(3, '0')}`);
    await Promise.all(names.map((name) => manager.write(name, 'x', null)));
    const from = server.calls.length;
    assert.deepEqual(await other.list('consumers'), names);
    assert.equal(server.calls.length, from + 3);
    server.unlisted.add('many/consumers/c007');
    assert.deepEqual(await manager.list('consumers'), names);
    assert.ok(!(await other.list('consumers')).includes('consumers/c007'));
    const found = await other.read('consumers/c007');
    assert.ok((await other.list('consumers')).includes('consumers/c007'));
    await manager.delete('consumers/c007', found?.version ?? '');
    assert.ok(!(await manager.list('consumers')).includes('consumers/c007'));
    await other.read('consumers/c007');
    assert.ok(!(await other.list('consumers')).includes('consumers/c007'));
  });

  it('refuses what the service would not store', async () => {
    await assert.rejects(connect().write('large', 'é'.repeat(33_000), null), /65536 bytes/);
    await assert.rejects(connect().write('empty', '', null), /can't be empty/);
  });
});

describe('a failing AWS Secrets Manager', () => {
  const faults: Record<Exclude<AwsFault, 'lost'>, RegExp> = {
    throttled: /limiting requests.*ThrottlingException, request req-1/,
    denied: /IAM policy.*AccessDeniedException/,
    broken: /isn't working.*InternalServiceError/,
    hang: /no answer in time/,
    reset: /ECONNRESET/,
    signature: /rejects the credentials.*InvalidSignatureException/,
  };
  for (const [fault, reason] of Object.entries(faults)) {
    it(`says so: ${fault}`, async () => {
      const manager = connect({ timeoutMs: fault === 'hang' ? 2000 : 10_000 });
      await manager.read('warm');
      server.fault = () => fault as AwsFault;
      const works = [
        manager.read('a'),
        manager.list('a'),
        manager.write('a', 'hunter2-value', null),
        manager.write('a', 'hunter2-value', 'x'),
        manager.delete('a', 'x'),
        manager.checkHealth(),
      ];
      for (const outcome of await Promise.allSettled(works)) {
        assert.ok(outcome.status === 'rejected');
        const error = outcome.reason as Error;
        assert.ok(error instanceof SecretsUnavailable, String(error));
        assert.match(error.message, reason);
        assert.ok(!showsSecret(error), error.message);
      }
    });
  }

  it('says that there are no credentials or no region', async () => {
    const withoutVariable = async (name: string) => {
      const value = process.env[name];
      delete process.env[name];
      try {
        return await connect()
          .read('a')
          .then(() => 'read', String);
      } finally {
        process.env[name] = value;
      }
    };
    assert.match(await withoutVariable('AWS_ACCESS_KEY_ID'), /there are no credentials/);
    assert.match(await withoutVariable('AWS_REGION'), /set AWS_REGION/);
  });

  it('answers many questions for its health with one call, and notices a failure at once', async () => {
    const manager = connect();
    const from = server.calls.length;
    await Promise.all(Array.from({ length: 50 }, () => manager.checkHealth()));
    assert.equal(server.calls.length, from + 1);
    server.fault = () => 'denied';
    await assert.rejects(manager.read('a'), /IAM policy/);
    await assert.rejects(manager.checkHealth(), /IAM policy/);
  });
});

describe('the settings of AWS', () => {
  const load = (env: Record<string, string>) => loadSettings({ SECRETS_MANAGER: 'aws', ...env }).aws;

  it('have a prefix of their own and leave the rest to the SDK', () => {
    assert.deepEqual(load({ AWS_REGION: 'eu-west-1' }), { prefix: 'handoff-gateway/', region: 'eu-west-1' });
    assert.deepEqual(load({ AWS_PROFILE: 'p', AWS_SECRETS_PREFIX: 'a.b/' }), {
      prefix: 'a.b/',
      region: undefined,
    });
  });

  it('are named when they are missing or wrong, together with all that is wrong elsewhere', () => {
    assert.throws(
      () => load({ AWS_SECRETS_PREFIX: '!x', PORT: 'many' }),
      (error) => {
        assert.ok(error instanceof SettingsError);
        const names = error.faults.map((fault) => /\(([A-Z_]+)\)/.exec(fault)?.[1]);
        assert.deepEqual(names, ['PORT', 'AWS_SECRETS_PREFIX', 'AWS_REGION']);
        return true;
      },
    );
  });

  it('are not looked at with another secrets manager', () => {
    assert.equal(loadSettings({ AWS_SECRETS_PREFIX: '!x', VAULT_ADDR: 'none' }).secretsManager, 'file');
  });
});

function showsSecret(error: Error): boolean {
  return `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`.includes(
    'hunter2',
  );
}
