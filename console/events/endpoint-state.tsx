import type { WebhookEndpoint } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useLoad } from '../shared/load.ts';
import { Badge } from '../shared/parts.tsx';
import { Ago } from '../shared/time.tsx';

const reasons: Record<string, string> = {
  requested: 'by you',
  gone: 'after it answered 410 Gone',
  failing: 'after failing for five days',
};

/** Nothing but failures since the last success. */
function isFailing({ last_success_at: success, last_failure_at: failure }: WebhookEndpoint): boolean {
  return failure !== null && (success === null || Date.parse(failure) > Date.parse(success));
}

/** Whether events reach the endpoint, and since when they do not. */
export function EndpointState({ endpoint }: { endpoint: WebhookEndpoint }): VNode {
  const { enabled, disabled_reason: reason, last_success_at: success, last_failure_at: failure } = endpoint;
  if (!enabled)
    return (
      <>
        <Badge>disabled</Badge>
        <br />
        <span class="quiet">{reasons[reason ?? '']}</span>
      </>
    );
  if (isFailing(endpoint))
    return (
      <>
        <span class="badge bad">failing</span>
        <br />
        <span class="quiet">
          Last failure <Ago at={failure} />,{' '}
          {success ? (
            <>
              last success <Ago at={success} />
            </>
          ) : (
            'no success yet'
          )}
          <Backlog id={endpoint.id} failedAt={failure} />
        </span>
      </>
    );
  if (success === null)
    return (
      <>
        <Badge>enabled</Badge>
        <br />
        <span class="quiet">Nothing sent yet</span>
      </>
    );
  return (
    <>
      <Badge>enabled</Badge>
      <br />
      <span class="quiet">
        Last success <Ago at={success} />
      </span>
    </>
  );
}

const mostCounted = 100;

/** How many events wait for the endpoint. Asked for again whenever another attempt has failed. */
function Backlog({ id, failedAt }: { id: string; failedAt: string | null }): VNode {
  const { data } = useLoad(`backlog ${id} ${failedAt}`, ({ client }) =>
    client.webhookEndpoints.deliveries(id, { status: 'pending', limit: mostCounted }).page(),
  );
  if (data === undefined) return <></>;
  const { length } = data.data;
  if (length === 0)
    return (
      <>
        <br />
        No events waiting
      </>
    );
  const count = data.has_more
    ? `More than ${mostCounted} events`
    : length === 1
      ? '1 event'
      : `${length} events`;
  return (
    <>
      <br />
      {count} waiting
    </>
  );
}
