import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { Question } from '../shared/dialog.tsx';
import { single } from '../shared/parts.tsx';
import { RotateQuestion } from '../shared/rotate-question.tsx';
import { useSession } from '../shared/session.ts';
import type { Change, Consumer } from './consumer.ts';

interface ActionsProps {
  consumer: Consumer;
  change: Change;
  /** Shows what went wrong with what was done at one click. */
  show: (problem: Problem | undefined) => void;
  onEdit: (consumer: Consumer) => void;
}

export function ConsumerActions({ consumer, change, show, onEdit }: ActionsProps): VNode {
  const { can, say } = useSession();
  const [asking, ask] = useState<'rotate' | 'revoke' | undefined>();
  const { id, name } = consumer;
  const path = `/v1/admin/consumers/${id}`;
  const isEnabled = consumer.enabled !== false;
  const enable = (enabled: boolean) =>
    change(path, { method: 'PATCH', body: JSON.stringify({ enabled }) }).then(
      () => say(`${name} is ${enabled ? 'enabled' : 'disabled'}.`),
      (error: unknown) => show(problemFrom(error)),
    );
  const close = () => ask(undefined);
  return (
    <>
      <div class="buttons">
        <button type="button" class="plain" onClick={single(() => ask('rotate'))}>
          Rotate…
        </button>
        <button type="button" class="plain" onClick={single(() => void enable(!isEnabled))}>
          {isEnabled ? 'Disable' : 'Enable'}
        </button>
        <button type="button" class="plain" onClick={single(() => onEdit(consumer))}>
          Edit
        </button>
        {can('consumers', 'delete') && (
          <button type="button" class="plain" onClick={single(() => ask('revoke'))}>
            Revoke…
          </button>
        )}
      </div>
      {asking === 'rotate' && (
        <RotateQuestion
          name={name}
          rotate={(graceWindowHours) =>
            change(`${path}/rotate`, { method: 'POST', body: JSON.stringify({ graceWindowHours }) })
          }
          onClose={close}
        />
      )}
      {asking === 'revoke' && (
        <Question
          title={`Revoke ${name}?`}
          action="Revoke now"
          isDanger
          act={() => change(path, { method: 'DELETE' }).then(() => say(`${name} is revoked.`))}
          onClose={close}
        >
          <p>Its keys stop working at once, for good. What it has written stays.</p>
        </Question>
      )}
    </>
  );
}
