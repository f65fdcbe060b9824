import type { VNode } from 'preact';
import type { Trouble } from './shared/outage.ts';
import { crmName } from './shared/page-facts.ts';
import { single } from './shared/parts.tsx';
import { useNow } from './shared/time.tsx';
import { countOf } from './shared/words.ts';

interface StripProps {
  trouble: Trouble;
  tryNow: () => void;
}

const sentences: Record<Trouble['what'], [what: string, meanwhile: string]> = {
  service: ["The gateway isn't responding.", 'This page may be out of date. What you typed is kept.'],
  crm: [
    `${crmName} isn't responding.`,
    "We'll save new hand-offs and create them as soon as it does. This page may be out of date.",
  ],
  sign_in: [
    `${crmName} refuses the gateway's sign-in.`,
    "We'll save new hand-offs and create them as soon as it accepts it. This page may be out of date.",
  ],
  quota: [
    `${crmName}'s daily call quota is used up.`,
    "We'll save new hand-offs and create them once calls are available again. This page may be out of date.",
  ],
  part: ["Part of the gateway isn't responding.", 'The rest works.'],
};

/** Whether the strip leaves a page nothing to add: it doesn't say which part is away. */
export function tellsAll(trouble: Trouble | undefined): boolean {
  return trouble !== undefined && trouble.what !== 'part';
}

/** On every page while something doesn't answer: what that is, what it means, and when it's tried again. */
export function OutageStrip({ trouble: { what, triedAgainAt }, tryNow }: StripProps): VNode {
  const seconds = Math.ceil((triedAgainAt - useNow(1000)) / 1000);
  const [sentence, meanwhile] = sentences[what];
  return (
    <div class="outage">
      <p role="status">
        <strong>{sentence}</strong> {meanwhile} {/* Spoken once, not every second. */}
        <span aria-hidden="true">
          {seconds > 0 ? `Trying again in ${countOf(seconds, 'second')}.` : 'Trying again…'}
        </span>
      </p>
      <button type="button" class="plain" onClick={single(tryNow)}>
        Try now
      </button>
    </div>
  );
}
