import { type Call, remainingMs } from '../../base/call.ts';
import { crowded } from '../rest/limiter.ts';

/** Writes that may wait for their turn at one record. */
const mostWaiting = 50;

/** Keeps writes to one record in the order of their arrival: the next begins when the one before is answered. */
export interface RecordOrder {
  /** Throws `CrmFailure` (crowded) where too many wait for this record, or the call's time ends first. */
  run<T>(record: string, call: Call, work: () => Promise<T>): Promise<T>;
}

export function createRecordOrder(): RecordOrder {
  /** By record: settles, never rejects, when the last write in line is done. */
  const lines = new Map<string, { last: Promise<unknown>; length: number }>();
  return {
    async run(record, call, work) {
      const line = lines.get(record) ?? { last: Promise.resolve(), length: 0 };
      if (line.length > mostWaiting) throw crowded();
      const done = line.length === 0 ? work() : inTime(line.last, call).then(work);
      line.last = Promise.allSettled([line.last, done]);
      line.length += 1;
      lines.set(record, line);
      try {
        return await done;
      } finally {
        line.length -= 1;
        if (line.length === 0) lines.delete(record);
      }
    },
  };
}

async function inTime(turn: Promise<unknown>, call: Call): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(crowded()), remainingMs(call));
  await Promise.race([turn, late.promise]).finally(() => clearTimeout(timer));
}
