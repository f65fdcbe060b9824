import type { Feature } from './feature.ts';
import { console } from './features/console/feature.ts';
import { consumerAdmin } from './features/consumer-admin/feature.ts';
import { crmWebhooks } from './features/crm-webhooks/feature.ts';
import { events } from './features/events/feature.ts';
import { handoff } from './features/handoff/feature.ts';
import { partnerWebhooks } from './features/partner-webhooks/feature.ts';
import { readCopy } from './features/read-copy/feature.ts';
import { records } from './features/records/feature.ts';
import { reservations } from './features/reservations/feature.ts';

/** Every feature, in the order in which they start, and in which the documentation has their operations. */
export const features: readonly Feature[] = [
  readCopy,
  handoff,
  records,
  reservations,
  events,
  partnerWebhooks,
  crmWebhooks,
  consumerAdmin,
  console,
];
