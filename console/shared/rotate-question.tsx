import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Question } from './dialog.tsx';
import { Field } from './parts.tsx';
import { type NewSecret, useSession } from './session.ts';
import { inWords } from './time.tsx';

interface RotateProps {
  /** Of the consumer. */
  name: string;
  /** Resolves to the answer as text. */
  rotate: (graceWindowHours: number) => Promise<string>;
  onClose: () => void;
}

interface Rotation {
  apiKey: string;
  apiSecret: string;
  previous: { expiresAt: string } | null;
}

/** Asks how long the old pair stays valid, rotates, and shows the new pair. */
export function RotateQuestion({ name, rotate, onClose }: RotateProps): VNode {
  const { showSecret } = useSession();
  const [hours, setHours] = useState('24');
  const act = async () => showSecret(secretIn(await rotate(Number(hours)), name));
  return (
    <Question title={`Rotate ${name}'s key?`} action="Rotate now" act={act} onClose={onClose}>
      <p>It gets a new key and secret. The secret is shown once.</p>
      <Field
        label="Grace window (hours)"
        type="number"
        min={0}
        step="any"
        value={hours}
        onInput={setHours}
        required
        hint="How long the old key keeps working. 0 turns it off right away."
      />
    </Question>
  );
}

function secretIn(answer: string, name: string): NewSecret {
  const { apiKey, apiSecret, previous } = JSON.parse(answer) as Rotation;
  const end = Date.parse(previous?.expiresAt ?? '');
  const note = end > Date.now() ? `The old key works until ${inWords(end)}.` : 'The old key no longer works.';
  return { title: `${name}'s new credentials`, apiKey, secret: apiSecret, note };
}
