import type { AuthenticationAttempt as Attempt } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useKeptPages } from '../shared/kept.ts';
import { pagesAt } from '../shared/load.ts';
import { Choice, Field, List, NoMatch } from '../shared/parts.tsx';
import { useParameters } from '../shared/router.ts';
import { withQuery } from '../shared/session.ts';
import { allColumns, keyOfAttempt, results } from './attempts.tsx';
import { useConsumerField } from './consumer-field.tsx';
import { periods, sinceNow } from './periods.ts';

const names = ['consumer_id', 'result', 'hours', 'address', 'request_id'] as const;
type Filters = Record<(typeof names)[number], string>;
const none: Filters = { consumer_id: '', result: '', hours: '', address: '', request_id: '' };

/** Every request that came with a key, or needed one. What is filtered stands in the address, keys apart. */
export function AttemptLog(): VNode {
  const [asked, ask] = useParameters(names);
  const [apiKey, setApiKey] = useState('');
  const showAll = () => {
    setApiKey('');
    ask(none);
  };
  return (
    <>
      <Filters asked={asked} ask={ask} apiKey={apiKey} onApiKey={setApiKey} />
      <Results key={JSON.stringify([asked, apiKey])} asked={asked} apiKey={apiKey} showAll={showAll} />
    </>
  );
}

interface FilterProps {
  asked: Filters;
  ask: (filters: Filters) => void;
  apiKey: string;
  onApiKey: (apiKey: string) => void;
}

function Filters({ asked, ask, apiKey, onApiKey }: FilterProps): VNode {
  const [typed, setTyped] = useState({ ...asked, apiKey });
  // At once: what somebody types before the browser paints is not to be lost.
  useLayoutEffect(() => setTyped({ ...asked, apiKey }), [asked.address, asked.request_id, apiKey]);
  /** A result can be chosen while the consumer is being looked for. */
  const latest = useRef(asked);
  latest.current = asked;
  const consumer = useConsumerField(asked.consumer_id);
  const set = (name: keyof typeof typed) => (value: string) => setTyped({ ...typed, [name]: value });
  const submit = async (event: Event) => {
    event.preventDefault();
    const consumer_id = await consumer.find();
    if (consumer_id === undefined) return;
    onApiKey(typed.apiKey.trim());
    ask({
      ...latest.current,
      consumer_id,
      address: typed.address.trim(),
      request_id: typed.request_id.trim(),
    });
  };
  return (
    <form class="filters" role="search" onSubmit={submit}>
      {consumer.field}
      <Choice
        label="Result"
        value={asked.result}
        options={results}
        onChange={(result) => ask({ ...asked, result })}
      />
      <Choice
        label="Time"
        value={asked.hours}
        options={periods}
        onChange={(hours) => ask({ ...asked, hours })}
      />
      <Field label="Address" value={typed.address} onInput={set('address')} placeholder="192.0.2.10" />
      <button class="primary">Filter</button>
      <details class="more" open={Boolean(asked.request_id || apiKey)}>
        <summary>More filters</summary>
        <div class="filters">
          <Field label="Request ID" value={typed.request_id} onInput={set('request_id')} />
          <Field label="API key" value={typed.apiKey} onInput={set('apiKey')} placeholder="hgk_…" />
        </div>
      </details>
    </form>
  );
}

interface ResultProps {
  asked: Filters;
  apiKey: string;
  showAll: () => void;
}

function Results({ asked: { hours, ...filters }, apiKey, showAll }: ResultProps): VNode {
  const pages = useKeptPages<Attempt>(
    'attempts',
    (note) => (session, cursor) => {
      // It moves with the first page only: the others follow that.
      if (cursor === undefined) note.current = { since: sinceNow(hours) };
      const query = { ...filters, api_key: apiKey, ...note.current };
      return pagesAt<Attempt>(withQuery('/v1/admin/auth-attempts', query))(session, cursor);
    },
    10_000,
  );
  const isFiltered = Object.values({ ...filters, hours, apiKey }).some(Boolean);
  return (
    <List
      caption="Access log"
      pages={pages}
      columns={allColumns}
      keyOf={keyOfAttempt}
      empty={isFiltered ? <NoMatch what="requests" showAll={showAll} /> : <p>No requests yet.</p>}
    />
  );
}
