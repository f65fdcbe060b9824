import { Answers } from './answers.ts';
import type { Ending } from './facts.ts';
import { checkDeliveries, checkFeed, checkIsolation } from './feed.ts';
import { Records } from './records.ts';
import { Reservations } from './reservations.ts';
import { Trips } from './trips.ts';
import { Webhooks } from './webhooks.ts';

interface AuditorOptions {
  /** The consumer that may see everything. */
  everything: string;
  /** Ids of the consumers that see their own records alone, by name. */
  owners: ReadonlyMap<string, string>;
  /** Number of killed processes. Each loses what it had counted and not stored: a second's usage, and a call of the budget at most. */
  kills: () => number;
  /** Milliseconds of virtual time. */
  now: () => number;
}

/** The contract as a model: what clients were told, and what must be true when all is over. */
export class Auditor {
  readonly violations: string[] = [];
  readonly answers: Answers;
  readonly records: Records;
  readonly reservations: Reservations;
  readonly trips: Trips;
  readonly webhooks: Webhooks;
  readonly #options: AuditorOptions;

  constructor(options: AuditorOptions) {
    this.#options = options;
    const violate = (what: string) => void this.violations.push(what);
    this.answers = new Answers(violate, options.now);
    this.records = new Records(violate);
    this.reservations = new Reservations(violate);
    this.trips = new Trips(violate, options.now);
    this.webhooks = new Webhooks(violate);
  }

  check(ending: Ending): void {
    const violate = (what: string) => void this.violations.push(what);
    this.answers.check();
    this.records.check(ending);
    this.reservations.check(ending);
    this.trips.check(ending);
    this.webhooks.check(ending);
    checkFeed(ending.feeds.get(this.#options.everything), ending.live, violate);
    checkFeed(ending.feeds.get('tester'), ending.world, violate);
    checkDeliveries(ending, violate);
    checkIsolation(ending, this.#options.owners, violate);
    for (const who of ending.intruders) violate(`is let in without a right: ${who}`);
    for (const what of ending.unfinished) violate(`never finished: ${what}`);
    this.#checkCalls(ending, violate);
  }

  /** Ledger, budget and the org's counter agree. A call that never reached the org is charged all the same. */
  #checkCalls({ calls }: Ending, violate: (what: string) => void): void {
    const { counted, charged, budgeted } = calls;
    const kills = this.#options.kills();
    if (charged < counted && kills === 0)
      violate(`the org has metered ${counted} calls, of which the ledger knows ${charged.toFixed(1)}`);
    if (budgeted !== undefined && budgeted < counted - kills)
      violate(`the org has metered ${counted} calls, of which the budget knows ${budgeted}`);
  }
}
