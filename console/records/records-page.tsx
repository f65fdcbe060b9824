import type { VNode } from 'preact';
import { NoPage } from '../no-page.tsx';
import { useSession } from '../shared/session.ts';
import { collections, titles } from './collections.ts';
import { RecordList } from './record-list.tsx';
import { RecordPage } from './record-page.tsx';

/** The records of the CRM that the consumer may read. `route`: the collection, and the record's id. */
export function RecordsPage({ route }: { route: string[] }): VNode {
  const { can } = useSession();
  const allowed = collections.filter((one) => can(one, 'read'));
  const [wanted = allowed[0], id] = route;
  const collection = allowed.find((one) => one === wanted);
  if (collection === undefined) return <NoPage isForbidden />;
  if (id !== undefined) return <RecordPage key={`${collection} ${id}`} collection={collection} id={id} />;
  return (
    <>
      <h1>Records</h1>
      <div class="tabs" role="group" aria-label="Kinds of records">
        {allowed.map((one) => (
          <a href={`#/records/${one}`} aria-current={one === collection ? 'page' : undefined}>
            {titles[one]}
          </a>
        ))}
      </div>
      <RecordList key={collection} collection={collection} />
    </>
  );
}
