import type { VNode } from 'preact';
import { type AtAGlance, isRealDay } from './guess.ts';
import { Amount } from './money.tsx';

/** Kind, date and price in a line, as far as the result has them. */
export function GlanceLine({ facts: { kind, when, price } }: { facts: AtAGlance }): VNode | null {
  if (kind === undefined && when === undefined && price === undefined) return null;
  return (
    <span class="glance">
      {kind && <span class="kind">{kind}</span>}
      {when && <span class="quiet">{dayOf(when)}</span>}
      {price && <Amount money={price} />}
    </span>
  );
}

/** The day and the time of day as the supplier wrote them: they are those of the place. */
export function dayOf(moment: string): string {
  if (!isRealDay(moment)) return moment;
  const day = new Date(`${moment.slice(0, 10)}T12:00:00Z`);
  const time = /T(\d\d:\d\d)/.exec(moment)?.[1];
  const text = day.toLocaleDateString('en-GB', {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    timeZone: 'UTC',
  });
  return time === undefined ? text : `${text}, ${time}`;
}
