import type { AuthenticationAttempt as Attempt } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { attemptColumns, keyOfAttempt } from './access-log/attempts.tsx';
import { AccessFacts, Keys } from './consumers/access-facts.tsx';
import type { Consumer } from './consumers/consumer.ts';
import { pagesAt, useLoad, usePages } from './shared/load.ts';
import { Freshness, List, LoadProblem, Skeleton, single } from './shared/parts.tsx';
import { RotateQuestion } from './shared/rotate-question.tsx';
import { isTest, read, useSession } from './shared/session.ts';
import { TestReset } from './test-band.tsx';
import { Usage } from './usage.tsx';

/** What the signed-in consumer may do, its keys, and what it has used. */
export function MyAccessPage(): VNode {
  const { can, consumer } = useSession();
  const own = useLoad('own', (caller) => read<Consumer>(caller, '/v1/consumer'));
  const { data, problem } = own;
  return (
    <>
      <h1>My access</h1>
      <Freshness of={own} />
      <LoadProblem of={own} />
      {!data && !problem && <Skeleton />}
      {data && (
        <>
          <AccessFacts consumer={data}>
            <dt>Consumer</dt>
            <dd>{data.name}</dd>
            {can('webhooks', 'read') && (
              <>
                <dt>Webhooks</dt>
                <dd>
                  <a href="#/events/endpoints">Endpoints</a>
                </dd>
              </>
            )}
          </AccessFacts>
          <OwnKeys consumer={data} />
        </>
      )}
      {isTest(consumer) && <TestReset />}
      <Usage path="/v1/consumer/usage" />
      <OwnRequests />
    </>
  );
}

function OwnKeys({ consumer }: { consumer: Consumer }): VNode {
  const { send } = useSession();
  const [isAsking, ask] = useState(false);
  const rotate = async (hours: number) => {
    const body = JSON.stringify({ grace_window_hours: hours });
    return (await send('/v1/consumer/rotate', { method: 'POST', body })).text;
  };
  return (
    <>
      <div class="title">
        <h2>Keys</h2>
        <button type="button" class="plain" onClick={single(() => ask(true))}>
          Rotate my key…
        </button>
      </div>
      <Keys consumer={consumer} />
      {isAsking && <RotateQuestion name={consumer.name} rotate={rotate} onClose={() => ask(false)} />}
    </>
  );
}

function OwnRequests(): VNode {
  const path = '/v1/consumer/auth-attempts?limit=20';
  const pages = usePages<Attempt>(path, pagesAt(path));
  return (
    <>
      <h2>Access log</h2>
      <List
        caption="Access log"
        pages={pages}
        columns={attemptColumns}
        keyOf={keyOfAttempt}
        empty={<p>No requests yet.</p>}
      />
    </>
  );
}
