import { sql } from 'kysely';
import { entry, type HistorySource, mostEntries } from '../../api/history.ts';
import { allows } from '../../identity/consumers/consumer.ts';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { eventIdsOf } from '../events/event-queries.ts';

interface Row {
  endpoint_id: string;
  status: 'delivered' | 'failed';
  /** RFC 3339. */
  at: string;
}

export function createDeliveryHistory(database: Database): HistorySource {
  return async ({ type, id }, { consumer }) => {
    if (!allows(consumer, 'webhooks', 'read')) return [];
    const statement = sql<Row>`
      select d.endpoint_id, d.status, coalesce(d.attempts -> -1 ->> 'at', to_json(d.created_at) #>> '{}') as at
      from (${eventIdsOf(type, id, mostEntries)}) as e
      cross join (select id from webhook_endpoints where consumer_id = ${consumer.id}) as w
      join deliveries d on d.endpoint_id = w.id and d.event_id = e.id
      where d.status <> 'pending' order by d.number desc limit ${mostEntries}`;
    const { rows } = await orUnavailable(() => statement.execute(database.sql), {
      keeps: 'keeps the deliveries',
    });
    return rows.map(({ endpoint_id: endpoint, status, at }) =>
      entry(new Date(at), status === 'delivered' ? 'delivered' : 'delivery_failed', {
        endpoint,
        isUnproven: true,
      }),
    );
  };
}
