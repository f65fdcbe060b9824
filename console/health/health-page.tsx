import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import type { Quota } from '../shared/outage.ts';
import { crmName, pageFacts } from '../shared/page-facts.ts';
import { Freshness, LoadProblem, Skeleton } from '../shared/parts.tsx';
import { read, useSession } from '../shared/session.ts';
import { countOf } from '../shared/words.ts';
import type { Activity } from './activity.ts';
import { CrmUsage } from './crm-usage.tsx';
import { type Health, headlineOf, looksOf, type PartLook, type PartState, partOf } from './health.ts';
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
  const looks = data && looksOf(data);
  return (
    <>
      <h1>Health</h1>
      <Freshness of={health} />
      <LoadProblem of={health} />
      {!data && !problem && <Skeleton />}
      {data && looks && (
        <>
          <p class={`headline ${worstOf(looks)}`}>{headlineOf(looks)}</p>
          <NotFresh health={data} />
          <ul class="cards">
            {looks.map((look) => (
              <Part key={look.name} look={look} state={data[look.name] as PartState} />
            ))}
          </ul>
        </>
      )}
      {session.can('consumers', 'read') && (
        <Figures quota={data && (partOf(data, 'crm')?.['quota'] as Quota | undefined)} />
      )}
      <p class="hint">
        Version {version}
        {environment && ` · ${environment}`}
      </p>
    </>
  );
}

/** For those who run the service: the last hour, and who used the calls. */
function Figures({ quota }: { quota: Quota | undefined }): VNode {
  const loaded = useLoad('activity', (session) => read<Activity>(session, '/v1/admin/activity'), everyMs);
  const { data, problem } = loaded;
  return (
    <>
      {data ? <Plots activity={data} /> : problem ? <LoadProblem of={loaded} /> : <Skeleton />}
      <CrmUsage quota={quota} exhaustedAt={data?.budget_exhausted_at} />
    </>
  );
}

function worstOf(looks: readonly PartLook[]): PartLook['tone'] {
  if (looks.some(({ tone }) => tone === 'bad')) return 'bad';
  return looks.some(({ tone }) => tone === 'waiting') ? 'waiting' : 'good';
}

function Part({ look: { title, tone, word }, state }: { look: PartLook; state: PartState }): VNode {
  const isOperator = useSession().can('consumers', 'read');
  const facts = isOperator ? state : { ...state, user: null, quota: null };
  return (
    <li class="card">
      <p class="card-head">
        <strong>{title}</strong>
        <span class={`badge ${tone}`}>{word}</span>
      </p>
      {factsOf(facts).map((fact) => (
        <p class="quiet">{fact}</p>
      ))}
    </li>
  );
}

interface SignInRefusal {
  error: string;
  error_description: string | null;
}

function inOwnWords({ error, error_description: description }: SignInRefusal): string {
  return `${crmName} says: ${description ?? error}`;
}

interface OrgFault {
  object: string;
  field: string | null;
  problem: string;
}

function inOrg({ object, field, problem }: OrgFault): string {
  return `${object}${field === null ? '' : `.${field}`} ${problem}`;
}

/** Why Salesforce is not connected, or soon will not be. */
const reasons: Record<string, string> = {
  sign_in: `${crmName} refused the sign-in.`,
  data: `Signing in works, but ${crmName} doesn't serve data.`,
  version: "The org doesn't offer the configured API version.",
  network: 'Nothing responds at its address.',
};

/** How the facts of a part are said in words. */
const words: Record<string, (value: unknown) => string> = {
  reason: (reason) => reasons[reason as string] ?? String(reason),
  sign_in: (refusal) => inOwnWords(refusal as SignInRefusal),
  advice: String,
  lacks: (faults) => (faults as OrgFault[]).map(inOrg).join('; '),
  user: (user) => `Signed in as ${(user as { Name: string }).Name}`,
  quota: (quota) => inWords(quota as Quota),
  waiting: (waiting) => `${count(waiting as number)} waiting`,
  oldest_seconds: (oldest) => `Oldest waiting for ${inUnits(oldest as number)}`,
  records: (records) => countOf(records as number, 'record'),
  age_seconds: (age) => `${inUnits(age as number)} behind ${crmName}`,
  seconds_behind: (behind) => `${inUnits(behind as number)} behind ${crmName}`,
};

function inWords({ used, limit, budget, budget_used: ofBudget }: Quota): string {
  const ofOrg = `${count(used)} of ${count(limit)} calls used in 24 hours`;
  return budget === undefined
    ? ofOrg
    : `${ofOrg}; ${count(ofBudget ?? 0)} of the budget's ${count(budget)} calls used`;
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
