import type { FieldValues, ListQuery, RecordPage } from './records.ts';

/** Makes a page of records that are added in its order. `add` refuses the first one that it has no room for: it is full then. */
export function startPage({ limit, maxBytes, represent, updatedSince }: ListQuery) {
  const orderedBy = updatedSince === undefined ? 'created_at' : 'updated_at';
  const page: RecordPage = { records: [], hasMore: false };
  const { records } = page;
  let bytes = 0;
  return {
    page,
    add(values: FieldValues): boolean {
      const json = Buffer.from(represent(values));
      page.hasMore = records.length === limit || (records.length > 0 && bytes + json.length > maxBytes);
      if (page.hasMore) return false;
      bytes += json.length;
      records.push({ id: values['id'] as string, at: values[orderedBy] as string, json });
      return true;
    },
  };
}
