import { createActivity } from '../shared/activity.ts';
import { createArmedFaults } from '../shared/armed-faults.ts';
import { closeServer, listen } from '../shared/server.ts';
import { createControl } from './control/control.ts';
import type { FaultInput } from './control/fault-input.ts';
import { createPipeline } from './http/pipeline.ts';
import { createHttpServer } from './http/server.ts';
import { openBooks } from './restaurant/books.ts';
import { merchant } from './restaurant/calendar.ts';
import { createRestaurant } from './restaurant/restaurant.ts';
import { initialSettings } from './restaurant/settings.ts';

export interface DiningSimulatorOptions {
  /** 0: any free port (default). */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Basic authentication. */
  username: string;
  password: string;
  /** Where bookings are kept across restarts; without it they live in memory only. */
  dataFile?: string;
}

export interface DiningSimulator {
  url: string;
  port: number;
  /** Its restaurants, in the words of the service. */
  merchants: readonly object[];
  close(): Promise<void>;
}

/**
 * Starts a simulated dining partner.
 * @throws Error when the data file can't be read, or the port is taken.
 */
export async function startDiningSimulator(options: DiningSimulatorOptions): Promise<DiningSimulator> {
  const books = openBooks(options.dataFile);
  const settings = initialSettings();
  const { username, password } = options;
  const closing = new AbortController();
  const parts = {
    books,
    settings,
    credentials: { username, password },
    faults: createArmedFaults<FaultInput>(),
    activity: createActivity(),
    closing: closing.signal,
  };
  const pipeline = createPipeline({ ...parts, restaurant: createRestaurant(books, settings) });
  const server = createHttpServer({ pipeline, control: createControl(parts), activity: parts.activity });
  const listening = await listen(server, options.port, options.host).catch((error: unknown) => {
    books.close();
    throw error;
  });
  return {
    ...listening,
    merchants: [merchant.description],
    close: async () => {
      closing.abort();
      await closeServer(server);
      books.close();
    },
  };
}
