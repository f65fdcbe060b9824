import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Consumer } from '../consumers/consumer.ts';
import { problemFrom } from '../shared/api.ts';
import { useSession } from '../shared/session.ts';
import { ShareSaver } from './share-saver.ts';

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
  const [saver] = useState(() => new ShareSaver(send, id, saved));
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const isGone = useRef(false);
  const fail = (why: string) => (isGone.current ? say(`${name}'s share: ${why}`) : setFault(why));
  const save = async () => {
    clearTimeout(timer.current);
    try {
      const done = await saver.save();
      if (done === undefined) return;
      if ('saved' in done) say(inSentence(name, done.saved));
      else fail(`Someone else set this to ${inWords(done.setByOther)}. Set it again.`);
      onSaved(saver.known || null);
    } catch (error) {
      const { title, detail } = problemFrom(error);
      fail(`${title}. ${detail}`);
    }
    if (saver.isAtRest) setShare(saver.known);
  };
  useEffect(() => {
    if (!saver.isAtRest) return;
    saver.learn(saved);
    setShare(saved);
  }, [saved]);
  useEffect(() => {
    const leave = () => saver.leave();
    addEventListener('pagehide', leave);
    return () => {
      removeEventListener('pagehide', leave);
      isGone.current = true;
      void save();
    };
  }, []);
  const move = (value: number) => {
    const wanted = Math.min(value, Math.max(most, saved));
    setShare(wanted);
    setFault(undefined);
    saver.choose(wanted);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void save(), restMs);
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

function inSentence(name: string, share: number): string {
  return share === 0 ? `${name} no longer has its own share.` : `${name} now gets ${share}% of the calls.`;
}

export function inWords(share: number): string {
  return share === 0 ? 'none' : `${share}%`;
}
