import { monotonicMs, wallMs } from '../../platform/base/chance.ts';
import { type CrmAnswer, header } from './request.ts';

/**
 * The time by the CRM's clock, from the Date of its latest answer: never ahead of it, and at most a second and an
 * answer's way behind. Before the first answer, and where answers have no Date, this process's own clock counts.
 */
export class CrmTime {
  /** What the CRM's clock is ahead of the monotonic one of this process. */
  #aheadMs = wallMs() - monotonicMs();

  note({ headers }: Pick<CrmAnswer, 'headers'>): void {
    const date = Date.parse(header(headers, 'date') ?? '');
    if (!Number.isNaN(date)) this.#aheadMs = date - monotonicMs();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return monotonicMs() + this.#aheadMs;
  }
}
