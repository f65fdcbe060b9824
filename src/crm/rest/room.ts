import type { Call } from '../../base/call.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { crowded } from './limiter.ts';

/** Requests that may wait for each slot: as many as one call can hold. More would only wait in vain. */
const waitingPerSlot = 200;
/** A call that nobody shares takes as much of a slot's time as a whole batch, so it weighs more. */
export const loneCallWeight = 4;

/** The room in which requests wait for the CRM: bounded in all, and half of it for any one consumer. */
export interface Room {
  /** Throws `CrmFailure` (crowded) where a request would find no place. */
  admit(call: Call): void;
  /** Takes a place until the returned function is called. Throws as `admit`. */
  enter(call: Call, weight?: number): () => void;
}

export function createRoom(options: { slots: number; metrics: Metrics }): Room {
  const { metrics } = options;
  const most = options.slots * waitingPerSlot;
  const byConsumer = new Map<string, number>();
  let waiting = 0;

  const admit = (call: Call) => {
    if (waiting < most && (byConsumer.get(call.consumerId ?? '') ?? 0) < most / 2) return;
    metrics.crmTurnedAway.inc({ reason: 'queue' });
    throw crowded();
  };
  const count = (consumer: string, weight: number) => {
    waiting += weight;
    const sum = (byConsumer.get(consumer) ?? 0) + weight;
    if (sum === 0) byConsumer.delete(consumer);
    else byConsumer.set(consumer, sum);
    metrics.crmQueueDepth.level = waiting;
  };

  return {
    admit,
    enter(call, weight = 1) {
      admit(call);
      const consumer = call.consumerId ?? '';
      count(consumer, weight);
      let isIn = true;
      return () => {
        if (!isIn) return;
        isIn = false;
        count(consumer, -weight);
      };
    },
  };
}
