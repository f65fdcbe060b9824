import type { VNode } from 'preact';
import { countOf } from '../shared/words.ts';
import type { Health, PartState } from './health.ts';

/** While the CRM does not answer: what is old, what is missing, and what waits. */
export function NotFresh({ health }: { health: Health }): VNode | null {
  if (partOf(health, 'crm')?.connected !== false) return null;
  return (
    <div class="notice">
      <p>
        <strong>While the CRM is not connected:</strong>
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
  const age = numberOf(health, 'copy', 'age_seconds');
  const behind = numberOf(health, 'changes', 'seconds_behind');
  const waiting = numberOf(health, 'handoffs', 'waiting');
  return [
    age === undefined
      ? 'Quotes, bookings and members cannot be read, except recently read members.'
      : `Quotes, bookings and members are shown as they were ${inUnits(age)} ago.`,
    ...(behind === undefined ? [] : [`Events of the last ${inUnits(behind)} are missing.`]),
    'New hand-offs are stored, and delivered when the CRM is back.',
    ...(waiting ? [`${waiting.toLocaleString('en')} waiting so far.`] : []),
  ];
}

function partOf(health: Health, name: string): PartState | undefined {
  const part = health[name];
  return typeof part === 'object' ? part : undefined;
}

function numberOf(health: Health, name: string, fact: string): number | undefined {
  const value = partOf(health, name)?.[fact];
  return typeof value === 'number' ? value : undefined;
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
