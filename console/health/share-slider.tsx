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

/** The per cent of a short budget's calls that are a consumer's own. Saved when it rests, and when the page is left. */
export function ShareSlider({ consumer: { id, name, crmShare }, most, onSaved }: SliderProps): VNode {
  const { send, say } = useSession();
  const saved = crmShare ?? 0;
  const [share, setShare] = useState(saved);
  const [fault, setFault] = useState<string | undefined>();
  const isGone = useRef(false);
  useEffect(
    () => () => {
      isGone.current = true;
    },
    [],
  );
  const fail = (why: string) => (isGone.current ? say(`${name}'s share: ${why}`) : setFault(why));
  const save = async (wanted: number, known: number): Promise<number> => {
    const path = `/v1/admin/consumers/${id}`;
    const value = wanted === 0 ? null : wanted;
    try {
      const { text, headers } = await send(path);
      const { crmShare: now } = JSON.parse(text) as Consumer;
      // Somebody else has changed it since it was shown.
      if ((now ?? 0) !== known) {
        fail(`Someone else set this to ${inWords(now ?? 0)}. Set it again.`);
        onSaved(now);
        return now ?? 0;
      }
      const tag = headers.get('etag');
      const body = JSON.stringify({ crmShare: value });
      await send(path, { method: 'PATCH', body, ...(tag !== null && { ifMatch: tag }) });
      say(
        wanted === 0 ? `${name} no longer has its own share.` : `${name} now gets ${wanted}% of the calls.`,
      );
      onSaved(value);
      return wanted;
    } catch (error) {
      const { title, detail } = problemFrom(error);
      fail(`${title}. ${detail}`);
      return known;
    }
  };
  const saveSoon = useSaves(saved, save, setShare);
  const move = (value: number) => {
    const wanted = Math.min(value, Math.max(most, saved));
    setShare(wanted);
    setFault(undefined);
    saveSoon(wanted);
  };
  return (
    <span class="share">
      <input
        type="range"
        min={0}
        max={100}
        value={share}
        aria-label={`${name}'s share`}
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

/**
 * Saves one value after the other, each against what the one before has left, and what is still pending when the slider goes.
 * `save` is given what is known to be saved, and returns what is then.
 */
function useSaves(
  saved: number,
  save: (wanted: number, known: number) => Promise<number>,
  show: (share: number) => void,
): (wanted: number) => void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const pending = useRef<number | undefined>(undefined);
  const last = useRef(saved);
  const queue = useRef(Promise.resolve(saved));
  const onItsWay = useRef(0);
  const current = useRef(save);
  current.current = save;
  const isResting = () => pending.current === undefined && onItsWay.current === 0;
  const saveNow = async () => {
    clearTimeout(timer.current);
    const { current: wanted } = pending;
    pending.current = undefined;
    if (wanted === undefined || wanted === last.current) return;
    last.current = wanted;
    onItsWay.current += 1;
    queue.current = queue.current.then((known) => current.current(wanted, known));
    const now = await queue.current;
    onItsWay.current -= 1;
    if (!isResting()) return;
    last.current = now;
    show(now);
  };
  useEffect(() => {
    if (!isResting()) return;
    last.current = saved;
    queue.current = Promise.resolve(saved);
    show(saved);
  }, [saved]);
  useEffect(() => () => void saveNow(), []);
  return (wanted) => {
    pending.current = wanted;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void saveNow(), restMs);
  };
}

export function inWords(share: number): string {
  return share === 0 ? 'none' : `${share}%`;
}
