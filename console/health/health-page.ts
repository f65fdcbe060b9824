import type { VNode } from 'preact';
import { html } from '../shared/html.ts';
import { useLoad } from '../shared/load.ts';
import { Badge, Freshness, ProblemAlert } from '../shared/parts.ts';
import { read, useSession } from '../shared/session.ts';
import { Plots } from './plots.ts';

interface PartState {
  connected: boolean;
  [fact: string]: unknown;
}

interface Health {
  status: 'ok' | 'unavailable';
  [part: string]: PartState | string;
}

const everyMs = 10_000;

/** Whether every part works, and what happened in the last hour. */
export function HealthPage(): VNode {
  const session = useSession();
  const health = useLoad('health', (asked) => read<Health>(asked, '/v1/healthz'), everyMs);
  const { data, problem } = health;
  const { version, environment } = session.facts;
  return html`<h1>Health</h1>
    <${Freshness} of=${health} />
    ${problem && html`<${ProblemAlert} problem=${problem} />`}
    ${data && html`<p class=${`headline ${data.status === 'ok' ? 'good' : 'bad'}`}>${data.status === 'ok' ? 'The service can work.' : 'The service cannot work: the CRM or the database is not connected.'}</p>`}
    ${data && html`<ul class="cards">${partsOf(data).map(([name, state]) => html`<${Part} key=${name} name=${name} state=${state} />`)}</ul>`}
    ${session.can('consumers', 'read') && html`<${Plots} everyMs=${everyMs} />`}
    <p class="hint">Version ${version}, environment ${environment}</p>`;
}

function partsOf(health: Health): [string, PartState][] {
  return Object.entries(health).filter((entry): entry is [string, PartState] => typeof entry[1] === 'object');
}

const titles: Record<string, string> = {
  crm: 'CRM',
  secretsManager: 'Secrets manager',
  database: 'Database',
  cache: 'Cache',
  dining: 'Dining partner',
  handoffs: 'Hand-offs delivered later',
  changes: "Reader of the CRM's changes",
  copy: 'Copy of records',
};

function Part({ name, state }: { name: string; state: PartState }): VNode {
  return html`<li class="card">
    <strong>${titles[name] ?? name}</strong>
    <${Badge}>${state.connected ? 'connected' : 'not connected'}</${Badge}>
    ${factsOf(state).map((fact) => html`<p class="quiet">${fact}</p>`)}
  </li>`;
}

interface Quota {
  used: number;
  limit: number;
  budget?: number;
  budget_used?: number;
}

/** What else a part says of itself, in words. */
function factsOf({ user, quota, reason, age_seconds: age, records }: PartState): string[] {
  const { used, limit, budget, budget_used: ofBudget } = (quota ?? {}) as Partial<Quota>;
  const count = (value: number | undefined) => (value ?? 0).toLocaleString('en');
  return [
    ...(typeof reason === 'string' ? [reason] : []),
    ...(user ? [`as ${(user as { Name: string }).Name}`] : []),
    ...(limit === undefined ? [] : [`${count(used)} of ${count(limit)} calls used today`]),
    ...(budget === undefined ? [] : [`${count(ofBudget)} of the budget of ${count(budget)}`]),
    ...(typeof records === 'number' ? [`${count(records)} records`] : []),
    ...(typeof age === 'number' ? [`${Math.round(age)} s behind the CRM`] : []),
  ];
}
