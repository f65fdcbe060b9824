import { type Core, defineFeature, type Started } from '../../feature.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { endLeases, leasedFor, leaseLock } from '../../platform/store/database-locks.ts';
import { DescribedObjectsTable } from './described-objects-table.ts';
import { leastSeconds, type OrgSchemaMetrics, OrgWatch, orgSchemaMetrics } from './org-watch.ts';

export const orgSchema = defineFeature({ name: 'org-schema', metrics: orgSchemaMetrics, start });

async function start(core: Core<unknown, OrgSchemaMetrics>): Promise<Started> {
  const { crm, database, opened } = core;
  // The simulated one gets another address with every start.
  const org = core.simulated['crm'] ? 'simulated' : crm.connectionHash;
  const watch = new OrgWatch({
    ...core,
    schema: crm.schema,
    table: new DescribedObjectsTable(database, org),
    // Nobody gives it back: it also says that the org was looked at.
    lease: async () =>
      (await leaseLock(database, `org-schema:${org}`, randomUUID(), leastSeconds)) !== undefined,
    forgetAsked: () => endLeases(database, `org-schema:${org}:`),
    async askedBefore(about, seconds) {
      const name = `org-schema:${org}:${about} (${seconds} s)`;
      const isNew = await leaseLock(database, name, randomUUID(), seconds);
      return isNew === undefined ? seconds - (await leasedFor(database, name)) : undefined;
    },
  });
  opened.defer(() => watch.stop());
  await watch.start();
  return {
    jobs: [
      { name: 'describe-crm-objects', cron: '23 * * * *', steps: { objects: async () => watch.lookSoon() } },
    ],
  };
}
