import type { ComponentChildren, VNode } from 'preact';
import { crmName } from '../shared/page-facts.ts';
import { Badge, type Column, Id, Table } from '../shared/parts.tsx';
import { inWords } from '../shared/permissions.ts';
import { Ago } from '../shared/time.tsx';
import { CopyableId } from '../shared/value.tsx';
import { type Consumer, statusOf } from './consumer.ts';

interface FactsProps {
  consumer: Consumer;
  /** Further facts. */
  children?: ComponentChildren;
}

export function AccessFacts({ consumer, children }: FactsProps): VNode {
  const { id, permissions, rateLimitPerMinute, crmShare, validUntil, people } = consumer;
  return (
    <section class="panel" aria-label="Access">
      <dl class="fields">
        <dt>Permissions</dt>
        <dd>
          <ul class="bare">
            {inWords(permissions).map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </dd>
        <dt>Requests per minute</dt>
        <dd>{rateLimitPerMinute?.toLocaleString('en') ?? "The gateway's default"}</dd>
        <dt>Allowance</dt>
        <dd>
          <Allowance allowance={consumer.allowance} />
        </dd>
        {crmShare !== null && (
          <>
            <dt>Share of {crmName} calls</dt>
            <dd>{crmShare}% reserved</dd>
          </>
        )}
        <dt>Valid until</dt>
        <dd>{validUntil ? <Ago at={validUntil} /> : 'No end date'}</dd>
        <dt>Addresses</dt>
        <dd>{consumer.allowedAddresses.join(', ') || 'Any'}</dd>
        <Certificates consumer={consumer} />
        {people.length > 0 && (
          <>
            <dt>People</dt>
            <dd>
              <ul class="bare">
                {people.map(({ claim, value }) => (
                  <li>
                    {claim}={value}
                  </li>
                ))}
              </ul>
            </dd>
          </>
        )}
        <dt>Created</dt>
        <dd>
          <Ago at={consumer.createdAt} />
        </dd>
        <dt>Last used</dt>
        <dd>{consumer.lastUsedAt ? <Ago at={consumer.lastUsedAt} /> : 'Never'}</dd>
        {children}
        <dt>ID</dt>
        <dd>
          <CopyableId id={id} what="the consumer's ID" />
        </dd>
      </dl>
    </section>
  );
}

function Allowance({ allowance }: { allowance: Consumer['allowance'] }): VNode {
  if (allowance === null) return <>Unlimited</>;
  const { requests, per, used = 0, resets_at } = allowance;
  return (
    <>
      {used.toLocaleString('en')} of {requests.toLocaleString('en')} requests used{' '}
      {per === 'day' ? 'today' : `this ${per}`}
      <meter aria-label="Allowance used" value={used} max={requests} high={requests * 0.8} optimum={0} />
      {resets_at && (
        <span class="quiet">
          Resets <Ago at={resets_at} />
        </span>
      )}
    </>
  );
}

function Certificates({ consumer }: { consumer: Consumer }): VNode | null {
  const { certificateNames, certificateFingerprints } = consumer;
  if (certificateNames.length + certificateFingerprints.length === 0) return null;
  return (
    <>
      <dt>Client certificates</dt>
      <dd>
        <ul class="bare">
          {certificateNames.map((one) => (
            <li>{one}</li>
          ))}
          {certificateFingerprints.map((one) => (
            <li>
              <Id>{one}</Id>
            </li>
          ))}
        </ul>
      </dd>
    </>
  );
}

type Pair = Consumer['credentials'][number];

/** Keys are as good as their consumer. */
const pairColumns = (isRefused: boolean): Column<Pair>[] => [
  { title: 'Key', cell: ({ apiKey }) => <Id>{apiKey}</Id> },
  { title: 'State', cell: ({ state }) => <Badge>{isRefused ? 'invalid' : state}</Badge> },
  { title: 'Created', cell: ({ createdAt }) => <Ago at={createdAt} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt ? <Ago at={lastUsedAt} /> : 'Never') },
  { title: 'Expires', cell: ({ expiresAt }) => (expiresAt ? <Ago at={expiresAt} /> : 'Never') },
];

type PublicKey = Consumer['publicKeys'][number];

const publicColumns: Column<PublicKey>[] = [
  { title: 'Key ID', cell: ({ kid }) => <Id>{kid}</Id> },
  { title: 'Kind', cell: ({ kty, crv }) => [kty, crv].filter(Boolean).join(' ') },
  { title: 'Algorithm', cell: ({ alg }) => alg ?? '–' },
];

/** A consumer's pairs, and its public keys where it has some. */
export function Keys({ consumer }: { consumer: Consumer }): VNode {
  const { credentials, publicKeys } = consumer;
  const columns = pairColumns(statusOf(consumer) !== 'active');
  return (
    <>
      <Table caption="Keys" columns={columns} rows={credentials} keyOf={({ apiKey }: Pair) => apiKey} />
      {publicKeys.length > 0 && (
        <>
          <h2>Public keys</h2>
          <Table
            caption="Public keys"
            columns={publicColumns}
            rows={publicKeys}
            keyOf={(key: PublicKey) => JSON.stringify(key)}
          />
        </>
      )}
    </>
  );
}
