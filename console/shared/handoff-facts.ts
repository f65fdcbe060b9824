import type { AcceptedHandoff } from '@handoff-gateway/client';
import { useEffect, useState } from 'preact/hooks';
import { type AtAGlance, glance } from './guess.ts';
import { parseDigits } from './json-text.ts';
import { recall } from './memory.ts';
import { useSession } from './session.ts';

/** Read at once: the service answers each from its database. */
const mostReads = 20;

/** What the results of hand-offs show at a glance, as far as it is read. Lists have no details: each is read once. */
export function useHandoffFacts(
  handoffs: readonly AcceptedHandoff[],
): (handoff: AcceptedHandoff) => AtAGlance | undefined {
  const { memory, send } = useSession();
  const known = recall(memory, 'handoff-facts', () => new Map<string, AtAGlance | undefined>());
  const [, setReads] = useState(0);
  const missing = handoffs.filter((one) => one.request && !known.has(keyOf(one))).slice(0, mostReads);
  useEffect(() => {
    let isGone = false;
    const readOne = async (handoff: AcceptedHandoff) => {
      const answer = await send(`/v1/handoffs/${handoff.external_id}`).catch(() => undefined);
      const { request } = parseDigits(answer?.text ?? '{}') as Partial<AcceptedHandoff>;
      known.set(keyOf(handoff), request ? glance(request.result.details) : undefined);
    };
    const readAll = async () => {
      await Promise.all(missing.map(readOne));
      // One change of the page, not one for each.
      if (!isGone) setReads((count) => count + 1);
    };
    if (missing.length > 0) void readAll();
    return () => {
      isGone = true;
    };
  }, [missing.map(keyOf).join()]);
  return (handoff) => known.get(keyOf(handoff));
}

/** What is handed off again under one id may be something else. */
function keyOf({ external_id, version }: AcceptedHandoff): string {
  return `${external_id} ${version ?? ''}`;
}
