import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { describe, it } from 'node:test';

const module = JSON.stringify(new URL('../../../src/platform/observability/log.ts', import.meta.url).href);

/** What a process writes that runs this with a log, line by line. */
function linesOf(script: string): Record<string, unknown>[] {
  const program = `const { createLog } = await import(${module}); const log = createLog('info'); ${script}`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  assert.ok(stdout === '' || stdout.endsWith('\n'));
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

const messages = (script: string) => linesOf(script).map(({ msg }) => msg);

describe('the log', () => {
  it('has a line for each message, with its level, its time and its facts', () => {
    const [line, ...more] = linesOf("log.debug({}, 'unheard'); log.warn({ code: 7 }, 'late')");
    assert.deepEqual(more, []);
    assert.deepEqual([line?.['level'], line?.['code'], line?.['msg']], ['warn', 7, 'late']);
    assert.match(String(line?.['time']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it('keeps the order of lines, whichever turn of the event loop they are from', () => {
    const script =
      'for (const n of [1, 2, 3]) { log.info({}, `a${n}`); log.info({}, `b${n}`); await null; await new Promise(setImmediate); }';
    assert.deepEqual(messages(script), ['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
  });

  for (const [end, script] of Object.entries({
    'ends by itself': '',
    'is ended': 'process.exit(3)',
    fails: "throw new Error('unforeseen')",
    'fails in a timer': "setTimeout(() => { log.info({}, 'last'); throw new Error('unforeseen'); })",
  })) {
    it(`loses no line of a process that ${end}`, () => {
      const expected = script.includes('last') ? ['one', 'two', 'last'] : ['one', 'two'];
      assert.deepEqual(messages(`log.info({}, 'one'); log.info({}, 'two'); ${script}`), expected);
    });
  }

  it('goes on where its file takes no more, and says so once', async (context) => {
    const folder = await mkdtemp(`${tmpdir()}/log-`);
    context.after(() => rm(folder, { recursive: true }));
    const file = `${folder}/handoff.log`;
    await symlink('/dev/full', file);
    const script =
      `const { createLog } = await import(${module}); const log = createLog('info', {}, ${JSON.stringify(file)});` +
      "for (const n of [1, 2]) { log.info({}, 'lost'); await new Promise(setImmediate); }" +
      `(await import('node:fs')).unlinkSync(${JSON.stringify(file)}); log.info({}, 'kept');`;
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    assert.match(stderr, /^The log can't be written: .*ENOSPC.*\n$/);
    assert.match(await readFile(file, 'utf8'), /^{[^\n]*"msg":"kept"}\n$/);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
  });

  it('has the facts of the process in each line, and none but the message where there are none', () => {
    const script = `createLog('info', { pid: 7 }).info({ code: 1, none: undefined }, 'a "line"'); log.info({}, 'b')`;
    const [ours, bare] = linesOf(script).map(({ time: _time, ...line }) => line);
    assert.deepEqual(ours, { level: 'info', pid: 7, code: 1, msg: 'a "line"' });
    assert.deepEqual(bare, { level: 'info', msg: 'b' });
  });

  it('says what went wrong of errors that are plain objects, or have no message of their own', () => {
    const script =
      "log.warn({ err: { ...new Error('x'), message: 'gone', stack: 'at y', headers: { key: 'secret' } } }, 'a');" +
      "log.warn({ err: new AggregateError([new Error('refused'), new Error('unreachable')]) }, 'b'); log.warn({ err: {} }, 'c')";
    const [plain, several, empty] = linesOf(script).map(({ err }) => err as Record<string, unknown>);
    assert.deepEqual(plain, { message: 'gone', stack: 'at y' });
    assert.equal(several?.['message'], 'refused; unreachable');
    assert.deepEqual(empty, { message: 'an error without a message' });
  });

  it('takes facts that are no JSON without a failure', () => {
    const script = "const ring = {}; ring.ring = ring; log.info({ ring }, 'a'); log.info({ big: 1n }, 'b')";
    assert.deepEqual(messages(script), ['a', 'b']);
  });

  it('escapes what could disturb a terminal', () => {
    const text = 'a\u009b31m\u202eb\u2028c';
    const { stdout } = spawnSync(process.execPath, [
      '--input-type=module',
      '--eval',
      `const { createLog } = await import(${module}); createLog('info').info({ name: ${JSON.stringify(text)} }, 'odd')`,
    ]);
    assert.match(stdout.toString(), /"a\\u009b31m\\u202eb\\u2028c"/);
    assert.equal(JSON.parse(stdout.toString()).name, text);
  });

  it('shows of an error its name, message and stack, and nothing that hangs on it', () => {
    const script =
      "log.error({ err: Object.assign(new TypeError('odd', { cause: new Error('deep') }), { secret: 'x' }) }, 'failed')";
    const [line] = linesOf(script);
    const err = line?.['err'] as { cause: { message: string } };
    assert.deepEqual(Object.keys(err).sort(), ['cause', 'message', 'name', 'stack']);
    assert.equal(err.cause.message, 'deep');
  });
});
