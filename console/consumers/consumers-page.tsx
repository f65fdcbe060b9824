import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Problem } from '../shared/api.ts';
import { Dialog } from '../shared/dialog.tsx';
import { pagesAt, usePages } from '../shared/load.ts';
import { Badge, type Column, Id, List, ProblemAlert, single } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { Ago } from '../shared/time.tsx';
import { type Change, type Consumer, inShort, refusedBecause } from './consumer.ts';
import { ConsumerActions } from './consumer-actions.tsx';
import { ConsumerForm } from './consumer-form.tsx';

/** The consumers and their credentials: who may do what, since when, and until when. */
export function ConsumersPage(): VNode {
  const session = useSession();
  const pages = usePages<Consumer>('consumers', pagesAt('/v1/admin/consumers'));
  const [problem, setProblem] = useState<Problem | undefined>();
  const [edited, setEdited] = useState<Consumer | 'new' | undefined>();
  const close = () => setEdited(undefined);
  const canWrite = session.can('consumers', 'write');
  const change: Change = async (path, options) => {
    setProblem(undefined);
    const { text } = await session.send(path, options);
    void pages.reload();
    return text;
  };
  return (
    <>
      <div class="title">
        <h1>Consumers</h1>
        {canWrite && (
          <button type="button" class="primary" onClick={single(() => setEdited('new'))}>
            New consumer…
          </button>
        )}
      </div>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {edited && (
        <Dialog
          title={edited === 'new' ? 'New consumer' : `Change ${edited.name}`}
          onClose={close}
          look="wide"
        >
          <ConsumerForm edited={edited === 'new' ? undefined : edited} change={change} onClose={close} />
        </Dialog>
      )}
      <List
        caption="Consumers"
        pages={pages}
        keyOf={({ id }: Consumer) => id}
        columns={[...columns, ...(canWrite ? [actionsColumn(change, setProblem, setEdited)] : [])]}
        empty={<p>No consumers yet.</p>}
      />
    </>
  );
}

function actionsColumn(
  change: Change,
  show: (problem: Problem | undefined) => void,
  onEdit: (consumer: Consumer) => void,
): Column<Consumer> {
  return {
    title: 'Actions',
    cell: (consumer) => <ConsumerActions consumer={consumer} change={change} show={show} onEdit={onEdit} />,
  };
}

const columns: Column<Consumer>[] = [
  {
    title: 'Name',
    cell: ({ name, id }) => (
      <>
        <strong>{name}</strong>
        <br />
        <code class="quiet">{id}</code>
      </>
    ),
  },
  { title: 'State', cell: (consumer) => <State consumer={consumer} /> },
  {
    title: 'Permissions',
    cell: ({ permissions }) => (
      <ul class="bare permission-list">
        {permissions.map((one) => (
          <li>{inShort(one)}</li>
        ))}
      </ul>
    ),
  },
  { title: 'Keys', cell: (consumer) => <Keys consumer={consumer} /> },
  { title: 'Last used', cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} /> },
  { title: 'Created', cell: ({ createdAt }) => <Ago at={createdAt} /> },
];

function State({ consumer }: { consumer: Consumer }): VNode {
  const { validUntil, rateLimitPerMinute, crmShare, allowance, allowedAddresses = [] } = consumer;
  return (
    <>
      <Badge>{refusedBecause(consumer) ?? 'enabled'}</Badge>
      {consumer.mode === 'test' && (
        <>
          {' '}
          <Badge>test</Badge>
        </>
      )}
      <ul class="bare quiet">
        {validUntil && (
          <li>
            until <Ago at={validUntil} />
          </li>
        )}
        {rateLimitPerMinute && <li>{rateLimitPerMinute.toLocaleString('en')} requests a minute</li>}
        {allowance && (
          <li>
            {allowance.requests.toLocaleString('en')} requests a {allowance.per}
          </li>
        )}
        {crmShare && <li>{crmShare} % of the CRM calls reserved</li>}
        {allowedAddresses.length > 0 && (
          <li title={allowedAddresses.join(', ')}>
            only from {allowedAddresses.length === 1 ? '1 address' : `${allowedAddresses.length} addresses`}
          </li>
        )}
      </ul>
    </>
  );
}

/** Keys are as good as their consumer, whose state stands beside them. */
function Keys({ consumer }: { consumer: Consumer }): VNode {
  const refused = refusedBecause(consumer) && 'not valid';
  return (
    <ul class="bare">
      {consumer.credentials.map(({ apiKey, state, expiresAt }) => (
        <li>
          <Id>{apiKey}</Id> <Badge>{refused ?? state}</Badge>
          {!refused && expiresAt && (
            <>
              {' '}
              <span class="quiet">
                until <Ago at={expiresAt} />
              </span>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
