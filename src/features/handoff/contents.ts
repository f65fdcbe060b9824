import type { Consumer } from '../../identity/consumers/consumer.ts';
import { visibleFields } from '../../identity/consumers/permissions.ts';
import { isFieldVisible } from '../../platform/base/call.ts';
import { pickFields } from '../../platform/base/json-text.ts';
import type { Database } from '../../platform/store/database.ts';
import type { FindContents } from '../events/handoff-contents.ts';
import { targets } from './handoff.ts';
import { HandoffsTable, type HeldContent } from './handoffs-table.ts';
import { readableBy } from './routes/accepted-handoffs.ts';
import { isRequestVisible } from './routes/schemas.ts';
import { atStore } from './stored-items.ts';

export function createFindContents(database: Database): FindContents {
  const table = new HandoffsTable(database);
  return async (ids, consumer, maxBytes) => {
    const found = await atStore(() => table.contents(ids, readableBy(consumer, undefined), maxBytes));
    return new Map(
      found.flatMap((one): [string, string | undefined][] => {
        const text = one.is_left ? undefined : textOf(one, consumer);
        return text === '{}' ? [] : [[one.external_id, text]];
      }),
    );
  };
}

function textOf(
  { type, trip_id, member_id, name, source, details }: HeldContent,
  consumer: Consumer,
): string {
  const visible = visibleFields(consumer, targets[type].collection);
  const ids = pickFields(JSON.stringify({ trip_id, member_id }), (field) => isFieldVisible(visible, field));
  if (details === null || !isRequestVisible(visible)) return ids;
  const result = JSON.stringify({ name, source });
  return `${ids.slice(0, -1)},${result.slice(1, -1)},"details":${details}}`;
}
