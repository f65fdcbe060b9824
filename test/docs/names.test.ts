import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Command } from 'commander';
import { createAllMetrics } from '../../src/app/metrics.ts';
import { documentedRoutes } from '../../src/app/routes.ts';
import { settingsTable } from '../../src/app/settings.ts';
import { createProgram } from '../../src/cli/cli.ts';
import { type ProblemCode, problems } from '../../src/platform/base/problem.ts';
import { createGroupMetrics } from '../../src/platform/observability/worker-metrics.ts';
import { codeBlocks, markdownFiles, readPage, root } from './pages.ts';

/** What a release said of itself stays as it was. */
const pages = markdownFiles().filter((page) => page !== 'CHANGELOG.md');

/** Each inline code, with its page. */
const inlineCode = pages.flatMap((page) => {
  const prose = readPage(page).replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => ({ page, text }));
});

/** What is matched in inline code and is not right, as `page: name`. */
function wrong(pattern: RegExp, isRight: (name: string) => boolean): string[] {
  const found = inlineCode.flatMap(({ page, text }) =>
    [...text.matchAll(pattern)].map(([whole, name = whole]) => ({ page, name })),
  );
  assert.ok(found.length > 0);
  return found.filter(({ name }) => !isRight(name)).map(({ page, name }) => `${page}: ${name}`);
}

describe('what the documentation names exists', () => {
  test('files and folders of the project', () => {
    // One that is still to be made, and one that stands for any.
    const toCome = new Set(['src/api/v2', 'src/features/reservations/connectors/']);
    const pattern = /^(?:src|test|docs|simulators|salesforce|scripts|bench|bin)\/[\w./-]*/g;
    assert.deepEqual(
      wrong(pattern, (path) => toCome.has(path) || existsSync(join(root, path))),
      [],
    );
  });

  test('settings', () => {
    const keys = new Set(Object.keys(settingsTable));
    const groups = [...keys].filter((key) => key.includes('.')).map((key) => key.split('.')[0]);
    // Fields of the health and of a booking's details, events, audit events, attributes of spans, and files, that begin like settings.
    const others = new Set([
      ...[
        'crm.reason',
        'crm.lacks',
        'crm.quota',
        'crm.user',
        'crm.connected',
        'crm.advice',
        'crm.sign_in',
        'dining.status',
      ],
      ...['handoff.request_id', 'handoff.consumer_id', 'handoff.crm.records'],
      ...['handoff.created', 'handoff.failed', 'handoff.awaiting_approval'],
      ...['handoff.approved', 'handoff.rejected', 'handoff.log', 'handoff.ts'],
    ]);
    const pattern = new RegExp(`^(?:${[...new Set(groups)].join('|')})\\.\\w+(?![\\w.(])`, 'g');
    assert.deepEqual(
      wrong(pattern, (name) => keys.has(name) || others.has(name)),
      [],
    );
  });

  test('environment variables and other names in capitals', () => {
    const code = globSync('{src,simulators,scripts,salesforce,test}/**/*.{ts,js,xml}', { cwd: root })
      .map(readPage)
      .join('\n');
    // What Node.js, OpenTelemetry's SDK and the SDK of AWS read by themselves.
    const others = /^(NODE_EXTRA_CA_CERTS|OTEL_\w+|AWS_ENDPOINT_URL_SECRETS_MANAGER)$/;
    assert.deepEqual(
      wrong(/^([A-Z][A-Z\d]*(?:_[A-Z\d]+)+)(?:=|$)/g, (name) => others.test(name) || code.includes(name)),
      [],
    );
  });

  test('metrics', () => {
    const names = new Set(
      [createAllMetrics(), createGroupMetrics()]
        .flatMap(({ registry }) => registry.getMetricsAsArray())
        .map(({ name }) => name),
    );
    assert.deepEqual(
      wrong(/\b(?:handoff|http_server)_[a-z_]+\b/g, (name) => names.has(name)),
      [],
    );
  });

  test('operations of the API', () => {
    const shape = (path: string) => path.replaceAll(/\/(?::\w+|\{\w+\}|<\w+>)/g, '/*');
    const operations = new Set(documentedRoutes().map(({ method, path }) => `${method} ${shape(path)}`));
    const pattern = /^((?:GET|POST|PUT|PATCH|DELETE) \/(?:api\/)?v1\/[\w/:{}<>-]+)/g;
    assert.deepEqual(
      wrong(pattern, (operation) => operations.has(shape(operation))),
      [],
    );
  });

  test('codes of problems, under the status that they have', () => {
    const faults = pages.flatMap((page) =>
      [...readPage(page).matchAll(/\b([45]\d\d) `([a-z]+_[a-z_]+|conflict)`/g)]
        .filter(([, status, code]) => problems[code as ProblemCode]?.status !== Number(status))
        .map(([text]) => `${page}: ${text}`),
    );
    assert.deepEqual(faults, []);
  });

  test('messages of the log', () => {
    const code = globSync('src/**/*.ts', { cwd: root }).map(readPage).join('\n');
    const [, section = ''] = readPage('docs/logs.md').split(/^## Messages$/m);
    const messages = [...section.matchAll(/^- (`[^:]+?`(?:, `.+?`)*): /gm)]
      .flatMap(([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)])
      .flatMap(([, text = '']) => text.split('…'))
      .map((text) => text.trim())
      .filter((text) => text !== '');
    assert.ok(messages.length > 20);
    assert.deepEqual(
      messages.filter((text) => !code.includes(text)),
      [],
    );
  });

  test('commands and their options', () => {
    const program = createProgram();
    const commands = [
      ...inlineCode,
      ...pages.flatMap((page) => codeBlocks(readPage(page)).map(({ text }) => ({ page, text }))),
    ].flatMap(({ page, text }) =>
      [...text.matchAll(/(?:^|\s)(?:handoff(?: --)?|bin\/handoff\.js) ([a-z][^\n|]*)/g)].map(
        ([, line = '']) => ({ page, line }),
      ),
    );
    assert.ok(commands.length > 10);
    const faults = commands.filter(({ line }) => !isCommand(program, line.split(/\s+/)));
    assert.deepEqual(faults, []);
  });
});

/** Whether the words are a command, its arguments and options that it has. */
function isCommand(program: Command, words: readonly string[]): boolean {
  let command = program;
  let depth = 0;
  for (const word of words) {
    const next = command.commands.find((one) => one.name() === word);
    if (next === undefined) break;
    command = next;
    depth += 1;
  }
  const options = words.filter((word) => word.startsWith('--'));
  return depth > 0 && options.every((name) => [program, command].some((one) => hasOption(one, name)));
}

function hasOption({ options }: Command, name: string): boolean {
  return options.some(({ long }) => long === name);
}
