import type { Call } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { TableConnector, TableSlot } from './connectors/connector.ts';
import { whyNotOffered } from './merchants.ts';

export interface TableAvailability {
  available: boolean;
  /** RFC 3339 times of tables that are free near the one that is not, the nearest first. */
  alternatives: string[];
}

export type Availability = (slot: TableSlot, call: Call) => Promise<TableAvailability>;

const gridMs = 30 * 60_000;
const steps = 3;

export function createAvailability(dining: TableConnector): Availability {
  return async (slot, call) => {
    const why = whyNotOffered(dining.merchants(call), slot);
    if (why !== undefined) throw new Problem('not_found', why);
    const [available = false] = await dining.areFree([slot], call);
    if (available) return { available, alternatives: [] };
    const others = neighbours(slot.startAt, wallMs()).map((startAt) => ({ ...slot, startAt }));
    const free = others.length === 0 ? [] : await dining.areFree(others, call);
    return { available, alternatives: others.filter((_, i) => free[i]).map(({ startAt }) => startAt) };
  };
}

function neighbours(startAt: string, now: number): string[] {
  const wanted = Date.parse(startAt);
  const first = Math.ceil(wanted / gridMs - steps) * gridMs;
  return Array.from({ length: 2 * steps + 1 }, (_, i) => first + i * gridMs)
    .filter((time) => time !== wanted && time > now && Math.abs(time - wanted) <= steps * gridMs)
    .sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted) || a - b)
    .map((time) => new Date(time).toISOString());
}
