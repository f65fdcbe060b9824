import type { VNode } from 'preact';
import { html } from '../shared/html.ts';
import { useLoad } from '../shared/load.ts';
import { Badge, Freshness, ProblemAlert } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
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
  const health = useLoad(
    'health',
    ({ client }) => client.health() as Promise<unknown> as Promise<Health>,
    everyMs,
  );
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

/** How the facts of a part are said in words. */
const words: Record<string, (value: unknown) => string> = {
  reason: String,
  lacks: (fields) => `the org lacks ${(fields as string[]).join(', ')}`,
  user: (user) => `as ${(user as { Name: string }).Name}`,
  quota: (quota) => inWords(quota as Quota),
  waiting: (waiting) => `${count(waiting as number)} waiting`,
  oldest_seconds: (oldest) => `the first for ${count(oldest as number)} s`,
  records: (records) => `${count(records as number)} records`,
  age_seconds: (age) => `${count(age as number)} s behind the CRM`,
};

function inWords({ used, limit, budget, budget_used: ofBudget }: Quota): string {
  const today = `${count(used)} of ${count(limit)} calls used today`;
  return budget === undefined ? today : `${today}, ${count(ofBudget ?? 0)} of the budget of ${count(budget)}`;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** What else a part says of itself. Nothing is said of what is empty. */
function factsOf(state: PartState): string[] {
  const isEmpty = (value: unknown) =>
    value === null || value === 0 || (Array.isArray(value) && value.length === 0);
  return Object.entries(words).flatMap(([name, say]) => {
    const value = state[name];
    return value === undefined || isEmpty(value) ? [] : [say(value)];
  });
}
