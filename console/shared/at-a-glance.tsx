import type { VNode } from 'preact';
import { type AtAGlance, isRealDay } from './guess.ts';
import { Amount } from './money.tsx';
import { zoneName } from './time.tsx';

/** Kind, date and price in a line, as far as the result has them. */
export function GlanceLine({ facts: { kind, when, timeZone, price } }: { facts: AtAGlance }): VNode | null {
  if (kind === undefined && when === undefined && price === undefined) return null;
  return (
    <span class="glance">
      {kind && <span class="kind">{kind}</span>}
      {when && <span class="quiet">{dayOf(when, timeZone)}</span>}
      {price && <Amount money={price} />}
    </span>
  );
}

/**
 * The day and the time of day. A moment is told by the clock of its place, or else, where it was sent in UTC, by the reader's.
 * All else is as the supplier wrote it: that of the place.
 */
export function dayOf(when: string, timeZone?: string): string {
  if (!isRealDay(when)) return when;
  const [, time, offset = ''] = /T(\d\d:\d\d)(?:[\d:.]*(Z|[+-]\d\d:?\d\d)$)?/i.exec(when) ?? [];
  const hasClock = /z/i.test(offset) || (offset !== '' && timeZone !== undefined);
  if (hasClock && !Number.isNaN(Date.parse(when))) return momentIn(Date.parse(when), timeZone);
  const day = dayIn(Date.parse(`${when.slice(0, 10)}T12:00:00Z`), 'UTC');
  return [day, time && `, ${time}`, offset && ` UTC${offset}`].join('');
}

/** `timeZone`: undefined for the reader's own. */
function momentIn(at: number, timeZone: string | undefined): string {
  const time = new Date(at).toLocaleTimeString('en-GB', { timeStyle: 'short', timeZone });
  return `${dayIn(at, timeZone)}, ${time} ${zoneName(timeZone)}`;
}

function dayIn(at: number, timeZone: string | undefined): string {
  return new Date(at).toLocaleDateString('en-GB', {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    timeZone,
  });
}
