import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createAllMetrics } from '../../src/app/metrics.ts';
import { createGroupMetrics } from '../../src/platform/observability/worker-metrics.ts';
import { readPage, root } from './pages.ts';

const alertsFile = 'docs/monitoring/alerts.yaml';
const dashboardFile = 'docs/monitoring/grafana-dashboard.json';

interface Panel {
  title: string;
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

const alerts = readPage(alertsFile)
  .split(/^ +- alert: /m)
  .slice(1)
  .map((text) => ({ name: /^\w+/.exec(text)?.[0] ?? '', text }));
const panels = (JSON.parse(readPage(dashboardFile)) as { panels: Panel[] }).panels;

describe('the alert rules', () => {
  test('read metrics and labels that the service has', () => {
    assert.ok(alerts.length > 10);
    const expressions = alerts.map(({ text }) => /expr: ([\s\S]*?)\n {8}\w/.exec(text)?.[1] ?? '');
    assert.deepEqual(
      expressions.filter((text) => readsOf(text).length === 0 && !text.startsWith('up{')),
      [],
    );
    assert.deepEqual(faultsOf(expressions), []);
  });

  test('see the first event of a series that they watch: it is there before, at 0', async () => {
    const { registry } = createAllMetrics();
    const watched = alerts.flatMap(({ text }) => [...text.matchAll(/increase\((\w+)\{(\w+)="([^"]+)"\}/g)]);
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

  test('say how bad it is and what it is', () => {
    for (const { name, text } of alerts) {
      assert.match(text, /severity: (critical|warning)\n/, name);
      assert.match(text, /summary: .{20,}/, name);
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
