import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useLoad } from '../shared/load.ts';

interface PingProps {
  endpointId: string;
  eventId: string;
}

const [soonMs, laterMs] = [1000, 5000];

/** What became of a test: followed until it is delivered, or not sent any more. */
export function PingResult({ endpointId, eventId }: PingProps): VNode {
  const [everyMs, repeat] = useState<number | undefined>(soonMs);
  const { data: delivery, problem } = useLoad(
    `ping ${eventId}`,
    async ({ client }) => {
      const page = await client.webhookEndpoints.deliveries(endpointId, { event_id: eventId }).page();
      const [found] = page.data;
      // After a failure the next try is a while away.
      if (found?.status !== 'pending') repeat(undefined);
      else if (found.attempts.length > 0) repeat(laterMs);
      return found;
    },
    everyMs,
  );
  const last = delivery?.attempts.at(-1);
  if (problem && delivery === undefined)
    return (
      <p class="notice bad" role="status">
        {problem.detail}
      </p>
    );
  if (last === undefined)
    return (
      <p class="notice" role="status">
        Sending the test…
      </p>
    );
  if (last.error === null)
    return (
      <p class="notice good" role="status">
        Test delivered: {last.status} in {last.duration_ms} ms.
      </p>
    );
  return (
    <p class="notice bad" role="status">
      Test failed: {errorInWords(last.error)}
      {delivery?.status === 'pending' ? ". We'll try again." : '.'}
    </p>
  );
}

const words: Record<string, string> = {
  dns: "the host name doesn't resolve",
  blocked_address: "the address isn't allowed",
  tls: 'the TLS connection failed',
  timeout: 'no response in time',
  connection: 'no connection',
  no_secret: 'its secret is missing',
  not_permitted: 'you no longer have permission to read the event',
};

/** The class of a failed attempt; of HTTP errors the status. */
export function errorInWords(error: string): string {
  return words[error] ?? error.replace('_', ' ').toUpperCase();
}
