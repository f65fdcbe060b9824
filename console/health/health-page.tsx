import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import { pageFacts } from '../shared/page-facts.ts';
import { Freshness, LoadProblem, Skeleton } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { countOf } from '../shared/words.ts';
import { CrmUsage } from './crm-usage.tsx';
import type { Health, PartState } from './health.ts';
import { inUnits, NotFresh } from './not-fresh.tsx';
import { Plots } from './plots.tsx';

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
  const { version, environment } = pageFacts;
  return (
    <>
      <h1>Health</h1>
      <Freshness of={health} />
      <LoadProblem of={health} />
      {!data && !problem && <Skeleton />}
      {data && (
        <>
          <Headline health={data} />
          <NotFresh health={data} />
        </>
      )}
      {data && (
        <ul class="cards">
          {partsOf(data).map(([name, state]) => (
            <Part key={name} name={name} state={state} />
          ))}
        </ul>
      )}
      {session.can('consumers', 'read') && <Plots everyMs={everyMs} />}
      {session.can('consumers', 'read') && <CrmUsage />}
      <p class="hint">
        Version {version}
        {environment && ` · ${environment}`}
      </p>
    </>
  );
}

function Headline({ health }: { health: Health }): VNode {
  const down = partsOf(health).filter(([, { connected }]) => !connected);
  const names = down.map(([name]) => titles[name] ?? name).join(', ');
  if (down.length === 0) return <p class="headline good">Everything works</p>;
  return <p class={`headline ${health.status === 'ok' ? 'waiting' : 'bad'}`}>Not working: {names}</p>;
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
  handoffs: 'Queued hand-offs',
  changes: 'Change feed',
  copy: 'Copy of records',
};

/** What is no connection works or not: what a part's state is called, where it is one. */
const states: Record<string, [working: string, failing: string]> = {
  handoffs: ['working', 'not working'],
  changes: ['up to date', 'behind'],
  copy: ['up to date', 'behind'],
};

function Part({ name, state }: { name: string; state: PartState }): VNode {
  const [working, failing] = states[name] ?? ['connected', 'not connected'];
  return (
    <li class="card">
      <p class="card-head">
        <strong>{titles[name] ?? name}</strong>
        <span class={`badge ${state.connected ? 'good' : 'bad'}`}>{state.connected ? working : failing}</span>
      </p>
      {factsOf(state).map((fact) => (
        <p class="quiet">{fact}</p>
      ))}
    </li>
  );
}

interface Quota {
  used: number;
  limit: number;
  budget?: number;
  budget_used?: number;
}

interface OrgFault {
  object: string;
  field: string | null;
  problem: string;
}

function inOrg({ object, field, problem }: OrgFault): string {
  return `${object}${field === null ? '' : `.${field}`} ${problem}`;
}

/** How the facts of a part are said in words. */
const words: Record<string, (value: unknown) => string> = {
  reason: String,
  lacks: (faults) => (faults as OrgFault[]).map(inOrg).join('; '),
  user: (user) => `Signed in as ${(user as { Name: string }).Name}`,
  quota: (quota) => inWords(quota as Quota),
  waiting: (waiting) => `${count(waiting as number)} waiting`,
  oldest_seconds: (oldest) => `The oldest for ${inUnits(oldest as number)}`,
  records: (records) => countOf(records as number, 'record'),
  age_seconds: (age) => `${inUnits(age as number)} behind the CRM`,
  seconds_behind: (behind) => `${inUnits(behind as number)} behind the CRM`,
};

function inWords({ used, limit, budget, budget_used: ofBudget }: Quota): string {
  const ofOrg = `${count(used)} of ${count(limit)} calls used in 24 hours`;
  return budget === undefined
    ? ofOrg
    : `${ofOrg}; ${count(ofBudget ?? 0)} of ${count(budget)} calls of the budget used`;
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
