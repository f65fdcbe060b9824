import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { single } from '../shared/parts.tsx';
import { RotateForm } from '../shared/rotate-form.tsx';
import { useSession } from '../shared/session.ts';
import type { Change, Consumer } from './consumer.ts';

interface ActionsProps {
  consumer: Consumer;
  change: Change;
  onEdit: (consumer: Consumer) => void;
}

/** What can be done with a consumer, in its row. */
export function ConsumerActions({ consumer, change, onEdit }: ActionsProps): VNode {
  const { can } = useSession();
  const [asking, ask] = useState<'rotate' | 'revoke' | undefined>();
  const path = `/v1/admin/consumers/${consumer.id}`;
  const isEnabled = consumer.enabled !== false;
  const enable = (enabled: boolean) =>
    void change(path, { method: 'PATCH', body: JSON.stringify({ enabled }) });
  const close = () => ask(undefined);
  if (asking === 'rotate') {
    const rotate = (hours: number) =>
      change(`${path}/rotate`, { method: 'POST', body: JSON.stringify({ graceWindowHours: hours }) });
    return <RotateForm name={consumer.name} rotate={rotate} onClose={close} />;
  }
  if (asking === 'revoke') {
    return (
      <div class="ask">
        <p>Revoke {consumer.name} for good? Its keys stop working at once.</p>
        <div class="buttons">
          <button
            type="button"
            class="danger"
            onClick={single(() => void change(path, { method: 'DELETE' }))}
          >
            Revoke now
          </button>
          <button type="button" class="plain" onClick={close}>
            Cancel
          </button>
        </div>
      </div>
    );
  }
  return (
    <div class="buttons">
      <button type="button" class="plain" onClick={single(() => ask('rotate'))}>
        Rotate
      </button>
      <button type="button" class="plain" onClick={single(() => enable(!isEnabled))}>
        {isEnabled ? 'Disable' : 'Enable'}
      </button>
      <button type="button" class="plain" onClick={single(() => onEdit(consumer))}>
        Edit
      </button>
      {can('consumers', 'delete') && (
        <button type="button" class="plain" onClick={single(() => ask('revoke'))}>
          Revoke
        </button>
      )}
    </div>
  );
}
