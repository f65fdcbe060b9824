import type { VNode } from 'preact';
import type { Quota } from '../shared/outage.ts';
import { crmName } from '../shared/page-facts.ts';

/** Share of one consumer, or of all others together. */
export interface Part {
  /** Place in the colours; undefined for what is nobody's of the table. */
  colour: number | undefined;
  name: string;
  calls: number;
}

/** Consumers beyond this stand together as others. */
export const mostColours = 5;

/** The quota as a bar, and who used how much of it, by name and number. */
export function QuotaBar({ quota, parts }: { quota: Quota; parts: readonly Part[] }): VNode {
  const limit = quota.budget ?? quota.limit;
  const used = quota.budget_used ?? quota.used;
  const known = parts.reduce((sum, { calls }) => sum + calls, 0);
  const elsewhere = Math.max(0, used - known);
  // The org counts from a moment of its own on, so that it may know less than the gateway of the same day.
  const isBeyond = known > used * 1.01 + 1;
  const scale = isBeyond ? used / known : 1;
  const all: Part[] = [
    ...parts,
    ...(elsewhere >= 1 ? [{ colour: undefined, name: 'Other programs in the org', calls: elsewhere }] : []),
  ].filter(({ calls }) => calls > 0);
  const counted = isBeyond ? used : Math.max(used, known);
  const width = Math.max(limit, counted, 1);
  const left = Math.max(0, limit - counted);
  let from = 0;
  return (
    <figure class="quota">
      <svg
        viewBox="0 0 1000 16"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${number(used)} of ${number(limit)} calls used`}
      >
        {all.map(({ colour, name, calls }) => {
          const x = (1000 * from) / width;
          from += calls * scale;
          return (
            <rect
              key={name}
              class={colourOf(colour)}
              x={x}
              width={Math.max(1.5, (1000 * calls * scale) / width)}
              height="16"
            />
          );
        })}
      </svg>
      <ul class="legend">
        {all.map(({ colour, name, calls }) => (
          <li key={name}>
            <Swatch colour={colour} />
            {name} <strong>{isBeyond ? `${Math.round((100 * calls) / known)}%` : number(calls)}</strong>
          </li>
        ))}
        <li>
          <span class="swatch free" aria-hidden="true"></span>
          Left <strong>{number(left)}</strong>
        </li>
      </ul>
      {isBeyond && (
        <figcaption class="hint">
          The gateway made {number(known)} calls in 24 hours, and {crmName} has counted {number(used)} so far.
          The bar splits those between the consumers.
        </figcaption>
      )}
    </figure>
  );
}

export function Swatch({ colour }: { colour: number | undefined }): VNode {
  return <span class={`swatch ${colourOf(colour)}`} aria-hidden="true"></span>;
}

function colourOf(colour: number | undefined): string {
  return `part-${colour ?? 'other'}`;
}

export function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}
