import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { Dialog, Question } from '../shared/dialog.tsx';
import { ProblemAlert, single } from '../shared/parts.tsx';
import { RotateQuestion } from '../shared/rotate-question.tsx';
import { useSession } from '../shared/session.ts';
import { type Change, type Consumer, pathOf } from './consumer.ts';
import { ConsumerForm } from './consumer-form.tsx';

interface ActionsProps {
  consumer: Consumer;
  change: Change;
}

/** Buttons to rotate, and to disable or enable. */
export function CommonActions({ consumer, change }: ActionsProps): VNode {
  const { say } = useSession();
  const [asking, ask] = useState<'rotate' | 'disable' | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const { id, name, enabled } = consumer;
  const close = () => ask(undefined);
  const enable = async (wanted: boolean) => {
    setProblem(undefined);
    await change(pathOf(id), { method: 'PATCH', body: JSON.stringify({ enabled: wanted }) });
    say(`${wanted ? 'Enabled' : 'Disabled'} ${name}.`);
  };
  return (
    <>
      <button type="button" class="plain" onClick={single(() => ask('rotate'))}>
        Rotate…
      </button>
      <button
        type="button"
        class="plain"
        onClick={single(() =>
          enabled
            ? ask('disable')
            : void enable(true).catch((error: unknown) => setProblem(problemFrom(error))),
        )}
      >
        {enabled ? 'Disable…' : 'Enable'}
      </button>
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {asking === 'rotate' && (
        <RotateQuestion
          name={name}
          rotate={(graceWindowHours) =>
            change(`${pathOf(id)}/rotate`, { method: 'POST', body: JSON.stringify({ graceWindowHours }) })
          }
          onClose={close}
        />
      )}
      {asking === 'disable' && (
        <Question
          title={`Disable ${name}?`}
          action="Disable now"
          isDanger
          act={() => enable(false)}
          onClose={close}
        >
          <p>
            Its keys stop working right away, until you enable it again. Anyone acting as this consumer is
            signed out.
          </p>
        </Question>
      )}
    </>
  );
}

interface PageActionsProps extends ActionsProps {
  onRevoked: () => void;
}

/** All that can be done with a consumer, on its page. */
export function PageActions({ consumer, change, onRevoked }: PageActionsProps): VNode | null {
  const { can, say } = useSession();
  const [asking, ask] = useState<'edit' | 'revoke' | undefined>();
  const { id, name } = consumer;
  const close = () => ask(undefined);
  const revoke = async () => {
    await change(pathOf(id), { method: 'DELETE' });
    say(`Revoked ${name}.`);
    onRevoked();
  };
  return (
    <div class="buttons">
      {can('consumers', 'write') && (
        <>
          <button type="button" class="plain" onClick={single(() => ask('edit'))}>
            Edit…
          </button>
          <CommonActions consumer={consumer} change={change} />
        </>
      )}
      {can('consumers', 'delete') && (
        <button type="button" class="plain" onClick={single(() => ask('revoke'))}>
          Revoke…
        </button>
      )}
      {asking === 'edit' && (
        <Dialog title={`Edit ${name}`} onClose={close} look="wide">
          <ConsumerForm edited={consumer} change={change} onClose={close} />
        </Dialog>
      )}
      {asking === 'revoke' && (
        <Question title={`Revoke ${name}?`} action="Revoke now" isDanger act={revoke} onClose={close}>
          <p>Its keys stop working right away, for good. The records it wrote stay.</p>
        </Question>
      )}
    </div>
  );
}
