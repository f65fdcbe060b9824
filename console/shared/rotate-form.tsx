import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Field } from './parts.tsx';
import { useSession } from './session.ts';
import { inWords } from './time.tsx';

interface RotateProps {
  /** Of the consumer. */
  name: string;
  /** Resolves to the answer; undefined where it failed, which is shown already. */
  rotate: (graceWindowHours: number) => Promise<string | undefined>;
  onClose: () => void;
}

interface Rotation {
  apiKey: string;
  apiSecret: string;
  previous: { expiresAt: string } | null;
}

/** Asks how long the old pair stays valid, rotates, and shows the new pair. */
export function RotateForm({ name, rotate, onClose }: RotateProps): VNode {
  const { showSecret } = useSession();
  const [hours, setHours] = useState('24');
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    const text = await rotate(Number(hours));
    setBusy(false);
    if (text === undefined) return;
    onClose();
    const { apiKey, apiSecret, previous } = JSON.parse(text) as Rotation;
    const end = Date.parse(previous?.expiresAt ?? '');
    const note =
      end > Date.now() ? `The old key works until ${inWords(end)}.` : 'The old key no longer works.';
    showSecret({ title: `New credentials of ${name}`, apiKey, secret: apiSecret, note });
  };
  return (
    <form class="ask" onSubmit={submit}>
      <Field
        label="Grace window (hours)"
        type="number"
        min={0}
        step="any"
        value={hours}
        onInput={setHours}
        required
        hint="How long the old key still works. 0: not at all."
      />
      <div class="buttons">
        <button class="primary" aria-busy={isBusy}>
          Rotate now
        </button>
        <button type="button" class="plain" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}
