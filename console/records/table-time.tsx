import type { VNode } from 'preact';
import { dateAndTime, inWords, relative, useNow, zoneName } from '../shared/time.tsx';

interface TimeProps {
  at: string;
  /** Of the restaurant; null where nobody has said where it is. */
  timeZone: string | null | undefined;
}

/** When guests have to be there, by the clock of the restaurant; by the reader's own where that is not known. */
export function TableTime({ at, timeZone }: TimeProps): VNode {
  const now = useNow(10_000);
  const moment = Date.parse(at);
  return (
    <time datetime={at} title={inWords(moment)}>
      <span>{dateAndTime(moment, timeZone ?? undefined)}</span>{' '}
      <span class="quiet">
        {zoneName(timeZone)}
        {timeZone ? '' : ', your time'}
      </span>{' '}
      <span class="quiet">({relative(moment, now)})</span>
    </time>
  );
}
