import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Consumer } from '../consumers/consumer.ts';
import { problemFrom } from '../shared/api.ts';
import { useSession } from '../shared/session.ts';

/** Keys move it step by step: what is meant is known when they rest. */
const restMs = 700;

interface SliderProps {
  consumer: Pick<Consumer, 'id' | 'name' | 'crmShare'>;
  /** Per cent that the other consumers leave. */
  most: number;
  onSaved: (share: number | null) => void;
}

/** The per cent of a short budget's calls that are a consumer's own. Saved when it rests. */
export function ShareSlider({ consumer: { id, name, crmShare }, most, onSaved }: SliderProps): VNode {
  const { send, say } = useSession();
  const saved = crmShare ?? 0;
  const [share, setShare] = useState(saved);
  const [fault, setFault] = useState<string | undefined>();
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setShare(saved), [saved]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const save = async (wanted: number) => {
    const path = `/v1/admin/consumers/${id}`;
    const value = wanted === 0 ? null : wanted;
    try {
      const { text, headers } = await send(path);
      const { crmShare: now } = JSON.parse(text) as Consumer;
      // Somebody else has changed it since it was shown.
      if (now !== crmShare) {
        setFault(`It's ${inWords(now ?? 0)} by now. Set it again.`);
        onSaved(now);
        return;
      }
      const tag = headers.get('etag');
      const body = JSON.stringify({ crmShare: value });
      await send(path, { method: 'PATCH', body, ...(tag !== null && { ifMatch: tag }) });
      say(wanted === 0 ? `${name} has no calls of its own.` : `${name} now has ${wanted} % of the calls.`);
      onSaved(value);
    } catch (error) {
      const { title, detail } = problemFrom(error);
      setFault(`${title}. ${detail}`);
      setShare(saved);
    }
  };
  const move = (value: number) => {
    const wanted = Math.min(value, Math.max(most, saved));
    setShare(wanted);
    setFault(undefined);
    clearTimeout(timer.current);
    if (wanted !== saved) timer.current = setTimeout(() => void save(wanted), restMs);
  };
  return (
    <span class="share">
      <input
        type="range"
        min={0}
        max={100}
        value={share}
        aria-label={`Share of ${name}`}
        aria-valuetext={inWords(share)}
        onInput={({ currentTarget }) => move(currentTarget.valueAsNumber)}
      />
      <output>{inWords(share)}</output>
      {fault && (
        <span class="fault" role="alert">
          {fault}
        </span>
      )}
    </span>
  );
}

export function inWords(share: number): string {
  return share === 0 ? 'none' : `${share} %`;
}
