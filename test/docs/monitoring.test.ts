import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { createAllMetrics } from '../../src/app/metrics.ts';
import { createGroupMetrics } from '../../src/platform/observability/worker-metrics.ts';
import { readPage, root } from './pages.ts';

const alertsFile = 'docs/monitoring/alerts.yaml';
const dashboardFile = 'docs/monitoring/grafana-dashboard.json';

interface Rule {
  alert?: string;
  record?: string;
  expr: string;
  labels?: { severity: string };
  annotations?: { summary: string; runbook_url: string };
}

interface Panel {
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  description?: string;
  targets?: { expr: string }[];
}

/** Labels that Prometheus adds to everything it reads. */
const ofPrometheus = new Set(['job', 'instance']);

const labelNames = new Map(
  [createAllMetrics(), createGroupMetrics()]
    .flatMap(({ registry }) => registry.getMetricsAsArray())
    .map((metric) => [metric.name, (metric as unknown as { labelNames: string[] }).labelNames]),
);

/** The metrics that an expression reads, and the labels that it selects by. */
function readsOf(expression: string): { name: string; labels: string[] }[] {
  const found = expression.matchAll(
    /\b((?:handoff|http_server|nodejs|process)_[a-z\d_]+)\b(?:\{([^}]*)\})?/g,
  );
  return [...found]
    .filter(([, name = '']) => !/^http_(route|request_method|response_status_code)$/.test(name))
    .map(([, name = '', selector = '']) => ({
      name: labelNames.has(name) ? name : name.replace(/_(bucket|count|sum)$/, ''),
      labels: [...selector.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label = '']) => label),
    }));
}

function faultsOf(expressions: string[]): string[] {
  return expressions.flatMap(readsOf).flatMap(({ name, labels }) => {
    const known = labelNames.get(name);
    if (known === undefined) return [name];
    const strange = labels.filter(
      (label) => !known.includes(label) && !ofPrometheus.has(label) && label !== 'le',
    );
    return strange.map((label) => `${name}{${label}}`);
  });
}

const { groups } = parse(readPage(alertsFile)) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, name: rule.alert }]));
const recorded = new Set(rules.map(({ record }) => record));

/** The recorded expressions that one reads. */
function recordsReadBy(expression: string): string[] {
  return [...expression.matchAll(/\bhandoff:[\w:]+/g)].map(([name]) => name);
}

/** Metrics without a panel, each with a reason. */
const withoutPanel: Readonly<Record<string, string>> = {};

const panels = (JSON.parse(readPage(dashboardFile)) as { panels: Panel[] }).panels;

describe('the alert rules', () => {
  test('read metrics and labels that the service has', () => {
    assert.ok(alerts.length > 10);
    const expressions = rules.map(({ expr }) => expr);
    assert.deepEqual(
      expressions.filter(
        (text) => [...readsOf(text), ...recordsReadBy(text)].length === 0 && !/\bup\{/.test(text),
      ),
      [],
    );
    assert.deepEqual(faultsOf(expressions), []);
    assert.deepEqual(
      expressions.flatMap(recordsReadBy).filter((name) => !recorded.has(name)),
      [],
    );
  });

  test('read no requests of other services, which have metrics of these names too', () => {
    const reads = rules.flatMap(
      ({ expr }) => expr.match(/\b(?:http_server|nodejs|process)_\w+(?:\{[^}]*\})?/g) ?? [],
    );
    const own = reads.filter((read) => !/^http_(route|request_method|response_status_code)/.test(read));
    assert.ok(own.length > 10);
    for (const read of own) assert.match(read, /\{.*job="handoff-gateway"/);
  });

  test('see the first event of a series that they watch: it is there before, at 0', async () => {
    const { registry } = createAllMetrics();
    const watched = alerts.flatMap(({ expr }) => [...expr.matchAll(/increase\((\w+)\{(\w+)="([^"]+)"\}/g)]);
    assert.ok(watched.length >= 3);
    for (const [, name = '', label = '', value] of watched) {
      const { values } = (await registry.getSingleMetric(name)?.get()) ?? { values: [] };
      const series = values.find(({ labels }) => (labels as Record<string, unknown>)[label] === value);
      assert.equal(series?.value, 0, `${name}{${label}="${value}"}`);
    }
  });

  test('are explained on their page, each under its name, and nothing else is', () => {
    const headings = [...readPage('docs/alerts.md').matchAll(/^### (Handoff\w+)$/gm)].map(([, name]) => name);
    assert.deepEqual(headings.toSorted(), alerts.map(({ name }) => name).toSorted());
  });

  test('say how bad it is, what it is, and where to read on', () => {
    for (const { name, labels, annotations } of alerts) {
      assert.match(labels?.severity ?? '', /^(critical|warning)$/, name);
      assert.match(annotations?.summary ?? '', /.{20,}/, name);
      assert.equal(
        annotations?.runbook_url,
        `https://runbooks.example.com/handoff-gateway/alerts.md#${name.toLowerCase()}`,
      );
    }
  });

  test('fire when they should and not else, as promtool sees it', (context) => {
    for (const args of [
      ['check', 'rules', join(root, alertsFile)],
      ['test', 'rules', join(root, 'test/docs/alerts.promtool.yaml')],
    ]) {
      const { status, error, stdout, stderr } = spawnSync('promtool', args);
      if (error) return context.skip('promtool is not installed (Debian package prometheus)');
      assert.equal(status, 0, `${stdout.toString()}${stderr.toString()}`);
    }
  });
});

describe('the dashboard', () => {
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  test('shows metrics and labels that the service has', () => {
    assert.ok(expressions.length > 20);
    assert.deepEqual(faultsOf(expressions), []);
    assert.deepEqual(
      expressions.flatMap(recordsReadBy).filter((name) => !recorded.has(name)),
      [],
    );
  });

  test('has a panel for every metric of our own: add one, or a reason to withoutPanel', () => {
    const shown = new Set(expressions.flatMap(readsOf).map(({ name }) => name));
    const own = [...labelNames.keys()].filter((name) => /^(handoff|http_server)_/.test(name));
    assert.deepEqual(
      own.filter((name) => !shown.has(name)),
      Object.keys(withoutPanel),
    );
  });

  test('puts no panel over another', () => {
    const taken = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
    );
    assert.equal(new Set(taken).size, taken.length);
  });

  test('names alerts that there are', () => {
    const named = panels.flatMap(({ description = '' }) => description.match(/\bHandoff[A-Z]\w+/g) ?? []);
    assert.ok(named.length > 10);
    assert.deepEqual(
      named.filter((name) => !alerts.some((alert) => alert.name === name)),
      [],
    );
  });
});

test('a metric or a label that does not exist is found', () => {
  const faults = faultsOf([
    'rate(handoff_nothing_total[5m])',
    'sum by (le) (rate(http_server_request_duration_seconds_bucket{status="200"}[5m]))',
    'handoff_job_queue_depth{state="ready", job="x"}',
  ]);
  assert.deepEqual(faults, ['handoff_nothing_total', 'http_server_request_duration_seconds{status}']);
});
