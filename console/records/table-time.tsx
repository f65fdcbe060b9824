import type { VNode } from 'preact';
import { dateAndTime, inWords, relative, useNow } from '../shared/time.tsx';

interface TimeProps {
  at: string;
  /** Of the restaurant; null where nobody has said where it is. */
  timeZone: string | null | undefined;
}

/** When guests have to be there, by the clock of the restaurant; by the reader's own where that is not known. */
export function TableTime({ at, timeZone }: TimeProps): VNode {
  const now = useNow(10_000);
  const moment = Date.parse(at);
  const zone = timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <time datetime={at} title={inWords(moment)}>
      <span>{dateAndTime(moment, zone)}</span>{' '}
      <span class="quiet">
        {zoneName(zone)}
        {timeZone ? '' : ', your time'}
      </span>{' '}
      <span class="quiet">({relative(moment, now)})</span>
    </time>
  );
}

/** `Madrid time` of `Europe/Madrid`. */
function zoneName(zone: string): string {
  return zone.includes('/') ? `${zone.split('/').at(-1)?.replaceAll('_', ' ')} time` : zone;
}
