import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  assertion,
  CLIENT_ID,
  DATA,
  PACKAGE_DIR,
  publicPem,
  requestToken,
  startOrg,
  type TestOrg,
  USERNAME,
} from './org.ts';

const MAIN = fileURLToPath(new URL('../../../simulators/salesforce/main.ts', import.meta.url));
const QUOTE = { Name__c: 'Lisbon', Source__c: 'flights' };
let directory: string;

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'simulated-org-'));
});
after(() => rmSync(directory, { recursive: true, force: true }));

async function withOrg(dataFile: string, work: (org: TestOrg) => Promise<void>): Promise<void> {
  const org = await startOrg({ dataFile, seed: { members: 2 } });
  try {
    await work(org);
  } finally {
    await org.close();
  }
}

const keys = async (org: TestOrg): Promise<string[]> => {
  const { body } = await org.query('SELECT External_Id__c FROM Quote__c ORDER BY External_Id__c');
  return body.records.map((row: { External_Id__c: string }) => row.External_Id__c);
};
const put = (org: TestOrg, key: string) =>
  org.data('POST', '/sobjects/Quote__c', { ...QUOTE, External_Id__c: key });

describe('the data file', () => {
  it('keeps records, numbers and deletions across restarts', async () => {
    const file = join(directory, 'made', 'org.jsonl');
    let deleted = '';
    let created = '';
    await withOrg(file, async (org) => {
      created = (await put(org, 'a')).body.id;
      deleted = (await put(org, 'b')).body.id;
      await org.data('PATCH', `/sobjects/Quote__c/${created}`, { Name__c: 'Porto' });
      await org.data('DELETE', `/sobjects/Quote__c/${deleted}`);
    });
    await withOrg(file, async (org) => {
      const { body } = await org.data('GET', `/sobjects/Quote__c/${created}`);
      assert.deepEqual([body.Id, body.Name__c, body.Name], [created, 'Porto', 'Q-00000001']);
      assert.equal(
        (await org.data('GET', `/sobjects/Quote__c/${deleted}`)).body[0].errorCode,
        'ENTITY_IS_DELETED',
      );
      const next = (await put(org, 'c')).body.id;
      assert.ok(next > deleted, 'no id is given twice');
      assert.equal((await org.data('GET', `/sobjects/Quote__c/${next}`)).body.Name, 'Q-00000003');
      assert.equal(
        (await org.query('SELECT COUNT() FROM Contact')).body.totalSize,
        2,
        'the seed is not sown twice',
      );
    });
  });

  it('loses no more than a torn last line, and refuses a damaged one', async () => {
    const file = join(directory, 'torn.jsonl');
    await withOrg(file, async (org) => {
      await put(org, 'a');
    });
    appendFileSync(file, '[["Quote__c",{"Id":"a0');
    await withOrg(file, async (org) => {
      assert.deepEqual(await keys(org), ['a']);
      await put(org, 'b');
    });
    await withOrg(file, async (org) => assert.deepEqual(await keys(org), ['a', 'b']));
    writeFileSync(file, `nonsense\n${readFileSync(file, 'utf8')}`);
    await assert.rejects(startOrg({ dataFile: file }), /line 1 is damaged/);
  });

  it('writes a transaction whole or not at all', async () => {
    const file = join(directory, 'whole.jsonl');
    await withOrg(file, async (org) => {
      const records = ['a', 'b'].map((key) => ({
        attributes: { type: 'Quote__c' },
        ...QUOTE,
        External_Id__c: key,
      }));
      await org.data('POST', '/composite/sobjects', { allOrNone: true, records });
    });
    // Half of the only line of the collection: neither of its records was answered for.
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    const last = lines.pop() ?? '';
    writeFileSync(file, `${lines.join('\n')}\n${last.slice(0, last.length / 2)}`);
    await withOrg(file, async (org) => assert.deepEqual(await keys(org), []));
  });

  it('is compacted at the start when most of it is history', async () => {
    const file = join(directory, 'history.jsonl');
    await withOrg(file, async (org) => {
      await org.data('DELETE', `/sobjects/Quote__c/${(await put(org, 'gone')).body.id}`);
      const attributes = { type: 'Quote__c' };
      const records = Array.from({ length: 200 }, (_, index) => {
        return { attributes, ...QUOTE, External_Id__c: `k${index}` };
      });
      const { body: made } = await org.data('POST', '/composite/sobjects', { records });
      for (let round = 1; round < 8; round += 1) {
        const changed = records.map((record, index) => ({ ...record, id: made[index].id }));
        await org.data('PATCH', '/composite/sobjects', { records: changed });
      }
    });
    const size = statSync(file).size;
    await withOrg(file, async (org) => {
      assert.ok(statSync(file).size < size / 4);
      assert.equal((await keys(org)).length, 200);
      await put(org, 'new');
    });
    await withOrg(file, async (org) => {
      const { body } = await org.data('GET', await org.pathOf('Quote__c', 'new'));
      assert.equal(body.Name, 'Q-00000202', 'numbers go on after compaction');
    });
  });
});

describe('the program', () => {
  const children: ChildProcess[] = [];
  after(() => {
    for (const child of children) child.kill('SIGKILL');
  });

  const start = async (...more: string[]): Promise<{ child: ChildProcess; url: string }> => {
    const pem = join(directory, 'app.pem');
    writeFileSync(pem, publicPem);
    const options = [
      '--client-id',
      CLIENT_ID,
      '--username',
      USERNAME,
      '--public-key',
      pem,
      '--package',
      PACKAGE_DIR,
    ];
    const child = spawn(process.execPath, [MAIN, ...options, ...more], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const [line] = (await once(child.stdout ?? child, 'data')) as [Buffer];
    return { child, url: String(line).trim().split(' ').at(-1) ?? '' };
  };

  const write = async (url: string, token: string, key: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ ...QUOTE, External_Id__c: key });
    return (await fetch(`${url}${DATA}/sobjects/Quote__c`, { method: 'POST', headers, body })).status;
  };

  it('keeps every record that it answered for when it is killed', async () => {
    const file = join(directory, 'killed.jsonl');
    const { child, url } = await start('--data', file);
    const token = (await requestToken(url, await assertion(url))).body.access_token;
    const answered: string[] = [];
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let index = 0; ; index += 1) {
        const key = `k${writer}-${index}`;
        if ((await write(url, token, key)) !== 201) return;
        answered.push(key);
        if (answered.length === 100) child.kill('SIGKILL');
      }
    });
    await Promise.allSettled(writers);
    await withOrg(file, async (org) => {
      const kept = new Set(await keys(org));
      assert.deepEqual(
        answered.filter((key) => !kept.has(key)),
        [],
      );
    });
  });

  it('stops cleanly on request', async () => {
    const { child, url } = await start('--seed-members', '3', '--port', '0');
    assert.equal((await fetch(`${url}/services/data`)).status, 200);
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  it('explains what is missing', async () => {
    const child = spawn(process.execPath, [MAIN, '--username', 'x'], { stdio: ['ignore', 'ignore', 'pipe'] });
    children.push(child);
    let text = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      text += String(chunk);
    });
    const [code] = await once(child, 'close');
    assert.equal(code, 2);
    assert.match(text, /--public-key is required/);
  });
});
