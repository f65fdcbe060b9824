import type { VNode } from 'preact';
import { crmName } from '../shared/page-facts.ts';
import { countOf } from '../shared/words.ts';
import { type Health, numberOf, partOf } from './health.ts';

/** While Salesforce does not answer: what is old, what is missing, and what waits. */
export function NotFresh({ health }: { health: Health }): VNode | null {
  if (partOf(health, 'crm')?.connected !== false) return null;
  return (
    <div class="notice">
      <p>
        <strong>While {crmName} isn't connected:</strong>
      </p>
      <ul>
        {factsOf(health).map((fact) => (
          <li>{fact}</li>
        ))}
      </ul>
    </div>
  );
}

function factsOf(health: Health): string[] {
  const age = numberOf(partOf(health, 'copy'), 'age_seconds');
  const behind = numberOf(partOf(health, 'changes'), 'seconds_behind');
  const waiting = numberOf(partOf(health, 'handoffs'), 'waiting');
  return [
    age === undefined
      ? "You can't see quotes, bookings or members, except members that were read recently."
      : `You see quotes, bookings and members as they were ${inUnits(age)} ago.`,
    ...(behind === undefined ? [] : [`Events from the last ${inUnits(behind)} are missing.`]),
    `We save new hand-offs and create them when ${crmName} is back.`,
    ...(waiting ? [`${countOf(waiting, 'hand-off')} waiting so far.`] : []),
  ];
}

const units: [unit: string, seconds: number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
];

/** `40 seconds`, `12 minutes`: in the largest unit of which there are two. */
export function inUnits(seconds: number): string {
  const [unit, size] = units.find(([, length]) => seconds >= 2 * length) ?? ['second', 1];
  return countOf(Math.round(seconds / size), unit);
}
