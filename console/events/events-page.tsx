import type { VNode } from 'preact';
import { NoPage } from '../no-page.tsx';
import { canReadRecords, useSession } from '../shared/session.ts';
import { Deliveries } from './deliveries.tsx';
import { Endpoints } from './endpoints.tsx';
import { Feed } from './feed.tsx';

/** What has happened to records, and where it is sent. `route`: `endpoints`, and an endpoint's id. */
export function EventsPage({ route }: { route: string[] }): VNode {
  const session = useSession();
  const [tab, id] = route;
  const hasFeed = canReadRecords(session);
  const hasEndpoints = session.can('webhooks', 'read');
  const isFeed = tab !== 'endpoints' && hasFeed;
  if (!isFeed && !hasEndpoints) return <NoPage isForbidden />;
  return (
    <>
      <h1>Events</h1>
      {hasFeed && hasEndpoints && (
        <div class="tabs" role="group" aria-label="Kinds of events">
          <a href="#/events" aria-current={isFeed ? 'page' : undefined}>
            All events
          </a>
          <a href="#/events/endpoints" aria-current={isFeed ? undefined : 'page'}>
            Webhook endpoints
          </a>
        </div>
      )}
      {isFeed ? <Feed /> : id ? <Deliveries key={id} id={id} /> : <Endpoints />}
    </>
  );
}
