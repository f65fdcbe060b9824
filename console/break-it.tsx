import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from './shared/api.ts';
import { useLoad } from './shared/load.ts';
import { crmName } from './shared/page-facts.ts';
import { Freshness, LoadProblem, ProblemAlert, Skeleton, single } from './shared/parts.tsx';
import { read, useSession } from './shared/session.ts';
import { JustNow } from './shared/time.tsx';

interface Breakage {
  name: string;
  title: string;
  watch: string;
  ends_at: string | null;
}

const path = '/v1/admin/break-it';

/** Outages at a click, where Salesforce and the partner are simulated. */
export function BreakItPage(): VNode {
  const { send, say, outage } = useSession();
  const loaded = useLoad('break-it', (session) => read<{ data: Breakage[] }>(session, path), 5000);
  const { data: { data: all } = {} } = loaded;
  const [problem, setProblem] = useState<Problem | undefined>();
  const [busy, setBusy] = useState<string | undefined>();
  const ask = async (method: 'POST' | 'DELETE', name: string, done: string) => {
    setBusy(name);
    setProblem(undefined);
    try {
      await send(`${path}${name && `/${name}`}`, { method });
      say(done);
    } catch (error) {
      setProblem(problemFrom(error));
    }
    setBusy(undefined);
    void loaded.reload();
    // What was broken, or works again, shows at once.
    void outage.tryNow();
  };
  const isBroken = all?.some(({ ends_at }) => ends_at !== null) ?? false;
  return (
    <>
      <div class="title">
        <h1>Break it</h1>
        <button
          type="button"
          class="primary"
          aria-disabled={!isBroken}
          aria-busy={busy === ''}
          onClick={single(() => isBroken && void ask('DELETE', '', 'All faults cleared.'))}
        >
          Fix all
        </button>
      </div>
      <p>
        {crmName} and the dining partner are simulated here, so nothing real can break. To see what your
        advisors would see, choose a member under <a href="#/hand-off">Hand-off</a>, break something here, and
        hand off a sample. Each fault clears itself after 5 minutes.
      </p>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      <Freshness of={loaded} />
      <LoadProblem of={loaded} />
      {!all && !loaded.problem && <Skeleton />}
      <ul class="cards">
        {all?.map((one) => (
          <BreakageCard
            key={one.name}
            breakage={one}
            isBusy={busy === one.name}
            onBreak={() => void ask('POST', one.name, `${one.title}.`)}
            onFix={() => void ask('DELETE', one.name, 'Fixed.')}
          />
        ))}
      </ul>
    </>
  );
}

interface CardProps {
  breakage: Breakage;
  isBusy: boolean;
  onBreak: () => void;
  onFix: () => void;
}

function BreakageCard({ breakage, isBusy, onBreak, onFix }: CardProps): VNode {
  const { title, watch, ends_at: endsAt } = breakage;
  const isBroken = endsAt !== null;
  const act = isBroken ? 'Fix' : 'Break';
  return (
    <li class={`card breakage ${isBroken ? 'broken' : ''}`}>
      <p class="card-head">
        <strong>{title}</strong>
        {isBroken && <span class="badge bad">broken</span>}
      </p>
      <p class="quiet">{watch}</p>
      <p class="buttons">
        <button
          type="button"
          class="plain"
          aria-label={`${act}: ${title}`}
          aria-busy={isBusy}
          onClick={single(() => isBusy || (isBroken ? onFix() : onBreak()))}
        >
          {act}
        </button>
        {endsAt && (
          <span class="hint">
            Clears itself <JustNow at={Date.parse(endsAt)} />
          </span>
        )}
      </p>
    </li>
  );
}
