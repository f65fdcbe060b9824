import { type Core, defineFeature, type Started } from '../../feature.ts';
import { CallLedger } from './call-ledger.ts';
import { crmUsageRoute, type UsageParts } from './crm-usage-route.ts';
import { RequestLedger } from './request-ledger.ts';
import { type ConsumerUsageParts, consumerUsageRoute, ownUsageRoute } from './usage-routes.ts';

export const usage = defineFeature({
  name: 'usage',
  start,
  routes: (parts: UsageParts & ConsumerUsageParts) => [
    crmUsageRoute(parts),
    ownUsageRoute(parts),
    consumerUsageRoute(parts),
  ],
});

function start({
  audit,
  crm,
  database,
  log,
  consumers,
  opened,
}: Core): Started<UsageParts & ConsumerUsageParts> {
  const calls = new CallLedger(database, log);
  const requests = new RequestLedger(database, log);
  crm.metered.add((operation, requestsOfCall) => calls.note(operation, requestsOfCall));
  // Later than all other features: calls are made until the connection to the CRM has stopped.
  crm.stopped.add(() => calls.stop());
  audit.recorded.add((attempt) => requests.note(attempt));
  opened.defer(() => requests.stop());
  return {
    routes: { calls, requests, findConsumer: (id) => consumers.directory.consumer(id) },
    jobs: [
      {
        name: 'compact-usage',
        cron: '17 * * * *',
        steps: { calls: () => calls.compact(), requests: () => requests.compact() },
      },
    ],
  };
}
