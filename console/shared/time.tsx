import { useEffect, useState } from 'preact/hooks';

const steps: [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];
const words = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' });

/** `5 min. ago`, `in 2 hr.`; a moment within 5 s is just now. Both in milliseconds since 1970. */
export function relative(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  if (Math.abs(seconds) < 5) return 'just now';
  const [unit, size] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  return words.format(Math.trunc(seconds / size), unit).replaceAll('.', '');
}

/** `120 ms`, `3 sec`, `5 min`: a span in its largest unit. */
export function duration(ms: number): string {
  const found = steps.find(([, length]) => ms >= length * 1000);
  const [unit, size] = found ?? ['millisecond', 0.001];
  const format = new Intl.NumberFormat('en', { style: 'unit', unit, unitDisplay: 'short' });
  return format.format(Math.max(0, Math.trunc(ms / (size * 1000))));
}

/** The words around it are English, wherever the reader is. */
const locale = 'en-GB';

/** A moment in the reader's own time zone, to the second, with the zone's name. */
export function inWords(at: number): string {
  return new Date(at).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'long' });
}

/** `14:05:30`, in the reader's own time zone. */
export function timeOfDay(at: number): string {
  return new Date(at).toLocaleTimeString(locale, { timeStyle: 'medium' });
}

export function isSameDay(one: number, other: number): boolean {
  return new Date(one).toDateString() === new Date(other).toDateString();
}

/** `22 Nov 2026, 14:05`, in the reader's own time zone or the one that is named. */
export function dateAndTime(at: number, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone };
  return new Date(at).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short', ...zone });
}

/** `Madrid time` of `Europe/Madrid`; the reader's own zone where none is known. */
export function zoneName(timeZone: string | null | undefined): string {
  const zone = timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone.includes('/') ? `${zone.split('/').at(-1)?.replaceAll('_', ' ')} time` : zone;
}

/** `22 Nov 2026` of `2026-11-22`; undefined for what is no day of the calendar. */
export function dayInWords(day: string): string | undefined {
  const at = /^\d{4}-\d\d-\d\d$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  // Some days that do not exist are taken for later ones.
  if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(day)) return undefined;
  return new Date(at).toLocaleDateString(locale, { dateStyle: 'medium', timeZone: 'UTC' });
}

/** The time, updated after so many milliseconds, and whenever what asks for it is shown again: what is just read is not ahead. */
export function useNow(everyMs: number): number {
  const [, setUpdates] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setUpdates((updates) => updates + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return Date.now();
}

/** When it was or will be, and how far away that is; a dash for what has not happened. */
export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow(10_000);
  if (!at) return <span class="quiet">–</span>;
  const moment = Date.parse(at);
  return (
    <time datetime={at} title={inWords(moment)}>
      <span>{dateAndTime(moment)}</span> <span class="quiet">({relative(moment, now)})</span>
    </time>
  );
}

/** How long ago it was, in a sentence that ends with the time of day. */
export function JustNow({ at }: { at: number }) {
  const now = useNow(10_000);
  const time = new Date(at).toLocaleTimeString(locale, { timeStyle: 'short' });
  return (
    <time datetime={new Date(at).toISOString()} title={inWords(at)}>
      {relative(at, now)} ({time})
    </time>
  );
}
