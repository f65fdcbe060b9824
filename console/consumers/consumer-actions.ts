import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { RequestOptions } from '../shared/api.ts';
import { html } from '../shared/html.ts';
import { Field, single } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { inWords } from '../shared/time.ts';
import type { Consumer } from './consumer.ts';

interface ActionsProps {
  consumer: Consumer;
  change: (path: string, options: RequestOptions) => Promise<string | undefined>;
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
  if (asking === 'rotate')
    return html`<${RotateForm} consumer=${consumer} change=${change} onClose=${close} />`;
  if (asking === 'revoke') {
    return html`<div class="ask">
      <p>Revoke it for good? Its keys are refused at once.</p>
      <div class="buttons">
        <button type="button" class="danger" onClick=${single(() => void change(path, { method: 'DELETE' }))}>Revoke now</button>
        <button type="button" class="plain" onClick=${close}>Cancel</button>
      </div>
    </div>`;
  }
  return html`<div class="buttons">
    <button type="button" class="plain" onClick=${single(() => ask('rotate'))}>Rotate</button>
    <button type="button" class="plain" onClick=${single(() => enable(!isEnabled))}>${isEnabled ? 'Disable' : 'Enable'}</button>
    <button type="button" class="plain" onClick=${single(() => onEdit(consumer))}>Edit</button>
    ${can('consumers', 'delete') && html`<button type="button" class="plain" onClick=${single(() => ask('revoke'))}>Revoke</button>`}
  </div>`;
}

interface RotateProps extends Omit<ActionsProps, 'onEdit'> {
  onClose: () => void;
}

/** Asks how long the old pair stays good. */
function RotateForm({ consumer, change, onClose }: RotateProps): VNode {
  const { showSecret } = useSession();
  const [hours, setHours] = useState('24');
  const [isBusy, setBusy] = useState(false);
  const rotate = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    const body = JSON.stringify({ graceWindowHours: Number(hours) });
    const text = await change(`/v1/admin/consumers/${consumer.id}/rotate`, { method: 'POST', body });
    setBusy(false);
    if (text === undefined) return;
    onClose();
    const { apiKey, apiSecret, previous } = JSON.parse(text) as Rotation;
    const end = Date.parse(previous?.expiresAt ?? '');
    const note =
      end > Date.now() ? `The old pair is valid until ${inWords(end)}.` : 'No older pair is valid.';
    showSecret({ title: `New credentials of ${consumer.name}`, apiKey, secret: apiSecret, note });
  };
  return html`<form class="ask" onSubmit=${rotate}>
    <${Field} label="Grace window (hours)" type="number" min="0" step="any" value=${hours} onInput=${setHours} required
      hint="How long the old pair stays valid; 0 ends it at once." />
    <div class="buttons">
      <button class="primary" aria-busy=${isBusy}>Rotate now</button>
      <button type="button" class="plain" onClick=${onClose}>Cancel</button>
    </div>
  </form>`;
}

interface Rotation {
  apiKey: string;
  apiSecret: string;
  previous: { expiresAt: string } | null;
}
