import type { AcceptedHandoff } from '@handoff-gateway/client';
import { type AtAGlance, glance } from './guess.ts';
import { parseDigits } from './json-text.ts';
import { useReads } from './load.ts';
import { recall } from './memory.ts';
import { useSession } from './session.ts';

/** What the results of hand-offs show at a glance, as far as it is read. Lists have no details: each is read once. */
export function useHandoffFacts(
  handoffs: readonly AcceptedHandoff[],
): (handoff: AcceptedHandoff) => AtAGlance | undefined {
  const { memory, send } = useSession();
  const known = recall(memory, 'handoff-facts', () => new Map<string, AtAGlance | undefined>());
  const readOne = async (handoff: AcceptedHandoff) => {
    const answer = await send(`/v1/handoffs/${handoff.external_id}`).catch(() => undefined);
    const { request } = parseDigits(answer?.text ?? '{}') as Partial<AcceptedHandoff>;
    known.set(keyOf(handoff), request ? glance(request.result.details) : undefined);
  };
  const missing = handoffs.filter((one) => one.request && !known.has(keyOf(one)));
  useReads(new Map(missing.map((one) => [keyOf(one), () => readOne(one)])));
  return (handoff) => known.get(keyOf(handoff));
}

/** What is handed off again under one id may be something else. */
function keyOf({ external_id, version }: AcceptedHandoff): string {
  return `${external_id} ${version ?? ''}`;
}
