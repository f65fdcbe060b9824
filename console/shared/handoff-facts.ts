import type { AcceptedHandoff } from '@handoff-gateway/client';
import { type AtAGlance, glance } from './guess.ts';
import { parseDigits } from './json-text.ts';
import { useReads } from './load.ts';
import { recall } from './memory.ts';
import { useSession } from './session.ts';

/** Lists have no details, so each hand-off is read once; those not read yet are missing. */
export function useHandoffFacts(
  handoffs: readonly AcceptedHandoff[],
): (handoff: AcceptedHandoff) => AtAGlance | undefined {
  const { memory, send } = useSession();
  const known = recall(memory, 'handoff-facts', () => new Map<string, AtAGlance | undefined>());
  const readOne = async (handoff: AcceptedHandoff) => {
    const { text } = await send(`/v1/handoffs/${handoff.external_id}`);
    const { request } = parseDigits(text) as AcceptedHandoff;
    known.set(keyOf(handoff), request ? glance(request.result.details) : undefined);
  };
  const missing = handoffs.filter((one) => one.request && !known.has(keyOf(one)));
  useReads(new Map(missing.map((one) => [keyOf(one), () => readOne(one)])));
  return (handoff) => known.get(keyOf(handoff));
}

/** Includes the version: another result may be handed off again under one id. */
function keyOf({ external_id, version }: AcceptedHandoff): string {
  return `${external_id} ${version ?? ''}`;
}
