import { useEffect, useState } from 'preact/hooks';
import { html } from './html.ts';

const steps: [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];
const words = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' });

/** `5 min. ago`, `in 2 hr.`; a moment within 5 s is now. Both in milliseconds since 1970. */
export function relative(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  if (Math.abs(seconds) < 5) return 'now';
  const [unit, size] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  return words.format(Math.trunc(seconds / size), unit).replaceAll('.', '');
}

/** A moment in the reader's own time zone. */
export function inWords(at: number): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

/** The time, anew after so many milliseconds. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** How long ago it was, with the moment itself on hovering; a dash for what has not happened. */
export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow(10_000);
  if (!at) return html`<span class="quiet">–</span>`;
  const moment = Date.parse(at);
  return html`<time datetime=${at} title=${inWords(moment)}>${relative(moment, now)}</time>`;
}
