import type { Feature } from './feature.ts';
import { console } from './features/console/feature.ts';
import { consumerAdmin } from './features/consumer-admin/feature.ts';
import { crmWebhooks } from './features/crm-webhooks/feature.ts';
import { discovery } from './features/discovery/feature.ts';
import { events } from './features/events/feature.ts';
import { handoff } from './features/handoff/feature.ts';
import { history } from './features/history/feature.ts';
import { mcp } from './features/mcp/feature.ts';
import { oauth } from './features/oauth/feature.ts';
import { orgSchema } from './features/org-schema/feature.ts';
import { partnerWebhooks } from './features/partner-webhooks/feature.ts';
import { people } from './features/people/feature.ts';
import { readCopy } from './features/read-copy/feature.ts';
import { records } from './features/records/feature.ts';
import { reservations } from './features/reservations/feature.ts';
import { testMode } from './features/test-mode/feature.ts';
import { trips } from './features/trips/feature.ts';
import { usage } from './features/usage/feature.ts';

/** Every feature, in the order in which they start, and in which the documentation has their operations. */
export const features: readonly Feature[] = [
  // Before those that call the CRM as soon as they start: each call counts.
  usage,
  orgSchema,
  readCopy,
  // After what reads live records: from here on there are those of test consumers, too.
  testMode,
  handoff,
  trips,
  records,
  reservations,
  events,
  partnerWebhooks,
  crmWebhooks,
  oauth,
  people,
  mcp,
  discovery,
  consumerAdmin,
  // After those that know of a record.
  history,
  console,
];
