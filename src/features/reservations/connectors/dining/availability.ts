import type { Call } from '../../../../platform/base/call.ts';
import type { TableSlot } from '../connector.ts';
import { type BookingServer, methods } from './booking-server.ts';
import { availabilityOf, availabilityRequest } from './messages.ts';
import { PartnerFailure } from './partner-failure.ts';

/**
 * Asks for all slots in one call. Partners answer 400 to what they never offer, such as a time outside their opening
 * hours, and then to the whole call: each slot is asked for alone. Throws `PartnerFailure`.
 */
export async function areFree(
  server: BookingServer,
  slots: readonly TableSlot[],
  call: Call,
): Promise<boolean[]> {
  const free = await ask(server, slots, call);
  if (free || slots.length === 1) return free ?? [false];
  return Promise.all(slots.map((slot) => isFree(server, slot, call)));
}

async function isFree(server: BookingServer, slot: TableSlot, call: Call): Promise<boolean> {
  const [free = false] = (await ask(server, [slot], call)) ?? [];
  return free;
}

/** Undefined where the partner does not accept the question. Throws `PartnerFailure`. */
async function ask(
  server: BookingServer,
  slots: readonly TableSlot[],
  call: Call,
): Promise<boolean[] | undefined> {
  const answer = await server
    .sendWithRetries(methods.availability, availabilityRequest(slots), call)
    .catch((error: unknown) => {
      if (error instanceof PartnerFailure && error.kind === 'invalid') return undefined;
      throw error;
    });
  return answer && slots.map((slot) => availabilityIn(answer.body, slot));
}

function availabilityIn(answer: unknown, slot: TableSlot): boolean {
  const available = availabilityOf(answer, slot);
  if (available === undefined) throw new PartnerFailure('broken', 'the answer is about other slots');
  return available;
}
