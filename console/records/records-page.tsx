import type { VNode } from 'preact';
import { NoPage } from '../no-page.tsx';
import { useParameters } from '../shared/router.ts';
import { useSession } from '../shared/session.ts';
import { collections, titles } from './collections.ts';
import { addressOf, countOfMatches, useMatches } from './matches.tsx';
import { RecordList } from './record-list.tsx';
import { RecordPage } from './record-page.tsx';
import type { Collection } from './search.ts';

/** The records of the CRM that the consumer may read. `route`: the collection, and the record's id. */
export function RecordsPage({ route }: { route: string[] }): VNode {
  const { can } = useSession();
  const allowed = collections.filter((one) => can(one, 'read'));
  const [wanted = allowed[0], id] = route;
  const collection = allowed.find((one) => one === wanted);
  if (collection === undefined) return <NoPage isForbidden />;
  if (id !== undefined) return <RecordPage key={`${collection} ${id}`} collection={collection} id={id} />;
  return <Lists allowed={allowed} collection={collection} />;
}

interface ListsProps {
  allowed: readonly Collection[];
  collection: Collection;
}

/** One of the lists, with the way to the others: what is searched for goes along. */
function Lists({ allowed, collection }: ListsProps): VNode {
  const [{ search }] = useParameters(searched);
  const matches = useMatches(
    search,
    allowed.filter((one) => one !== collection),
  );
  return (
    <>
      <h1>Records</h1>
      <div class="tabs" role="group" aria-label="Kinds of records">
        {allowed.map((one) => (
          <a
            key={one}
            href={addressOf(one, search)}
            aria-current={one === collection ? 'page' : undefined}
            aria-description={matches[one] && `${countOfMatches(matches[one])} match`}
          >
            {titles[one]}
            {matches[one] && (
              <span class="count" aria-hidden="true">
                {countOfMatches(matches[one])}
              </span>
            )}
          </a>
        ))}
      </div>
      <RecordList key={collection} collection={collection} matches={matches} />
    </>
  );
}

const searched = ['search'] as const;
