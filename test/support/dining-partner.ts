import { startDiningSimulator } from '../../simulators/dining/simulator.ts';
import type { ArmedFault } from './org.ts';
import { freePort } from './ports.ts';

/** A booking in the partner's books. */
export interface PartnerBooking {
  booking_id: string;
  status: string;
  user_id: string;
  start_sec: number;
  duration_sec: number;
  party_size: number;
  additional_request: string | null;
  idempotency_token: string;
}

/** The simulated dining partner as a test sees it: its books, its counters, and the faults that it can be asked for. */
export class DiningPartner {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  /** The bookings that have these values. */
  async bookings(where: Record<string, string> = {}): Promise<PartnerBooking[]> {
    return (await this.control('GET', `bookings?${new URLSearchParams(where).toString()}`)) as never;
  }

  /** The merchant decides. */
  async setStatus(bookingId: string, status: string): Promise<void> {
    await this.control('POST', `bookings/${bookingId}/status`, { status });
  }

  async set(settings: object): Promise<void> {
    await this.control('PATCH', 'settings', settings);
  }

  /** Arms a fault for the next calls that match. */
  async arm(fault: {
    match?: object;
    effect: object;
    times?: number;
    probability?: number;
  }): Promise<ArmedFault> {
    const { id } = (await this.control('POST', 'faults', fault)) as { id: string };
    return {
      hit: async (count = 1) => void (await this.control('GET', `faults/${id}/await?count=${count}`)),
      release: async () => void (await this.control('POST', `faults/${id}/release`)),
      remove: async () => void (await this.control('DELETE', `faults/${id}`)),
    };
  }

  /** How many calls of a method have arrived. */
  async calls(operation: string): Promise<number> {
    const { calls } = (await this.control('GET', 'counters')) as { calls: Record<string, number> };
    return calls[operation] ?? 0;
  }

  async changePassword(password: string): Promise<void> {
    await this.control('POST', 'password', { password });
  }

  /** No faults, no bookings, first settings, counters at 0. */
  async reset(): Promise<void> {
    await this.control('POST', 'reset');
  }

  async control(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.url}/simulator/${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}

/** Start of a slot that nobody else asks for: 19:00 UTC, so many days from now. */
export function slotInDays(days: number): string {
  const date = new Date(Date.now() + days * 86_400_000);
  date.setUTCHours(19, 0, 0, 0);
  return date.toISOString();
}

export const partnerCredentials = { username: 'gateway', password: 'a password of the test' };

/** A partner of the test's own: it outlives the gateways that use it. */
export async function startOwnPartner(options: { port?: number; dataFile?: string } = {}) {
  // A port that nobody else has when it comes back.
  const simulator = await startDiningSimulator({ port: await freePort(), ...partnerCredentials, ...options });
  return {
    partner: new DiningPartner(simulator.url),
    port: simulator.port,
    close: () => simulator.close(),
  };
}
