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
  const path = `/v1/admin/consumers/${id}`;
  /** A value that the service may have taken, although no answer came. */
  const unanswered = useRef<number | undefined>(undefined);
  const look = async (): Promise<Seen> => {
    const { text, headers } = await send(path);
    return { share: (JSON.parse(text) as Consumer).crmShare ?? 0, tag: headers.get('etag') };
  };
  const change = async (wanted: number, { tag }: Seen) => {
    unanswered.current = wanted;
    const body = JSON.stringify({ crmShare: wanted === 0 ? null : wanted });
    await send(path, { method: 'PATCH', body, ...(tag !== null && { ifMatch: tag }) });
    unanswered.current = undefined;
  };
  const isOwn = ({ share: now }: Seen, known: number) => now === known || now === unanswered.current;
  const save = async (wanted: number, known: number): Promise<number> => {
    try {
      const seen = await look();
      // Somebody else has changed it since it was shown.
      if (!isOwn(seen, known)) {
        fail(`Someone else set this to ${inWords(seen.share)}. Set it again.`);
        onSaved(seen.share === 0 ? null : seen.share);
        return seen.share;
      }
      await change(wanted, seen);
      say(
        wanted === 0 ? `${name} no longer has its own share.` : `${name} now gets ${wanted}% of the calls.`,
      );
      onSaved(wanted === 0 ? null : wanted);
      return wanted;
    } catch (error) {
      const { title, detail, status } = problemFrom(error);
      if (status >= 400 && status < 500) unanswered.current = undefined;
      fail(`${title}. ${detail}`);
      return known;
    }
  };
  const saveSoon = useSaves({ saved, save, look, isOwn, change, show: setShare });
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

/** A consumer's share, as it was read. */
interface Seen {
  share: number;
  tag: string | null;
}

interface Saves {
  saved: number;
  /** Given what is known to be saved, it returns what is then. */
  save: (wanted: number, known: number) => Promise<number>;
  look: () => Promise<Seen>;
  isOwn: (seen: Seen, known: number) => boolean;
  change: (wanted: number, seen: Seen) => Promise<void>;
  show: (share: number) => void;
}

/**
 * Saves one value after the other, each against what the one before has left, and what is still pending when the slider or the
 * tab goes.
 */
function useSaves({ saved, save, look, isOwn, change, show }: Saves): (wanted: number) => void {
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
  /** As it was when the slider began to move; undefined until that is read. */
  const seen = useRef<Seen | undefined>(undefined);
  useEffect(() => {
    // A tab that is closed can't read anything first.
    const leave = () => {
      const { current: wanted } = pending;
      if (wanted === undefined || seen.current === undefined || !isOwn(seen.current, last.current)) return;
      clearTimeout(timer.current);
      pending.current = undefined;
      last.current = wanted;
      void change(wanted, seen.current).catch(() => undefined);
    };
    addEventListener('pagehide', leave);
    return () => removeEventListener('pagehide', leave);
  }, []);
  const begin = async () => {
    seen.current = undefined;
    seen.current = await look().catch(() => undefined);
  };
  return (wanted) => {
    if (pending.current === undefined) void begin();
    pending.current = wanted;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void saveNow(), restMs);
  };
}

export function inWords(share: number): string {
  return share === 0 ? 'none' : `${share}%`;
}
