import type { AuthenticationAttempt as Attempt } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { type Column, Id } from '../shared/parts.tsx';
import { Ago } from '../shared/time.tsx';

export const results: [value: string, text: string][] = [
  ['', 'All'],
  ['accepted', 'Key accepted'],
  ['missing', 'No key'],
  ['unknown_key', 'Unknown key'],
  ['wrong_secret', 'Wrong secret'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
  ['disabled', 'Disabled'],
  ['certificate', 'Wrong certificate'],
  ['address', 'Address not allowed'],
  ['permission_denied', 'No permission'],
];

/** In the list of one consumer. */
export const attemptColumns: Column<Attempt>[] = [
  { title: 'When', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  { title: 'Result', cell: (attempt) => <Result attempt={attempt} /> },
  { title: 'Request', cell: (attempt) => <Request attempt={attempt} /> },
  {
    title: 'Address',
    cell: ({ address, user_agent }) => <span title={user_agent ?? ''}>{address ?? '–'}</span>,
  },
];

export const allColumns: Column<Attempt>[] = [
  ...attemptColumns.slice(0, 2),
  { title: 'Consumer', cell: (attempt) => <Caller attempt={attempt} /> },
  ...attemptColumns.slice(2),
  { title: 'API key', cell: ({ api_key }) => <Id>{api_key}</Id> },
  { title: 'Request ID', cell: ({ request_id }) => <Id>{request_id}</Id> },
];

export function keyOfAttempt({ request_id, timestamp }: Attempt): string {
  return request_id + timestamp;
}

interface PartProps {
  attempt: Attempt;
}

function Result({ attempt: { result, status } }: PartProps): VNode {
  const fault = result === 'accepted' ? faultOf(status) : refusalOf(result);
  return (
    <>
      <span class={`badge ${fault ? 'bad' : 'good'}`}>{fault ?? 'Accepted'}</span>{' '}
      <span class="quiet">{status}</span>
    </>
  );
}

function refusalOf(result: string): string {
  return results.find(([value]) => value === result)?.[1] ?? result.replaceAll('_', ' ');
}

/** Undefined where nothing is wrong with a request whose key was right. */
function faultOf(status: number): string | undefined {
  if (status < 400) return undefined;
  return status < 500 ? 'Request error' : 'Server error';
}

/** One entry stands for several requests where there were very many. */
function Request({ attempt: { endpoint, count } }: PartProps): VNode {
  const [method, path] = endpoint.split(' ');
  const isUnknown = path === 'none';
  return (
    <>
      {isUnknown ? `${method}, unknown path` : <code>{endpoint}</code>}{' '}
      {count > 1 && <span class="quiet">{count.toLocaleString('en')} times within a minute</span>}
    </>
  );
}

function Caller({ attempt: { consumer_id: id, consumer_name: name, person } }: PartProps): VNode {
  if (id === null) return <span class="quiet">–</span>;
  return (
    <>
      <a href={`#/consumers/${id}`} title={id}>
        {name ?? <Id>{id}</Id>}
      </a>
      {person && (
        <>
          <br />
          <bdi class="quiet">{person}</bdi>
        </>
      )}
    </>
  );
}
