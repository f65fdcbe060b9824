import { defineFeature } from '../../feature.ts';
import type { Audit } from '../../identity/audit/audit.ts';
import type { ConsumerDirectory } from '../../identity/consumers/directory.ts';
import { openConsumers, registerConsumerCommands } from './cli/consumer.ts';
import { listAuditEventsRoute } from './routes/audit-events.ts';
import { listAuthAttemptsRoute } from './routes/auth-attempts.ts';
import { type ConsumersContext, consumerRoutes } from './routes/consumers.ts';
import { ownConsumerRoutes } from './routes/own-consumer.ts';

export const consumerAdmin = defineFeature({
  name: 'consumer-admin',
  start: ({ consumers: { administration, directory }, audit, allowances }) => ({
    routes: { administration, directory, audit, allowances },
  }),
  routes: (parts: ConsumersContext & { audit: Audit; directory: ConsumerDirectory }, cursors) => [
    ...consumerRoutes(parts, cursors),
    ...ownConsumerRoutes(parts, cursors),
    listAuthAttemptsRoute(parts, cursors),
    listAuditEventsRoute(parts, cursors),
  ],
  commands: (program, load) => registerConsumerCommands(program, (opened) => openConsumers(load(), opened)),
});
