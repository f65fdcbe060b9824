import assert from 'node:assert/strict';
import { eventually } from './eventually.ts';

/** The simulated org as a test sees it: its records, its counters, and the faults that it can be asked for. */
export class Org {
  readonly url: string;
  /** External ID of a member that exists. */
  readonly memberId: string;

  constructor(url: string, memberId: string) {
    this.url = url;
    this.memberId = memberId;
  }

  /** Raw records of an object that have these values. */
  async records(object: string, where: Record<string, string> = {}): Promise<Record<string, unknown>[]> {
    return (await this.#control(
      'GET',
      `records/${object}?${new URLSearchParams(where).toString()}`,
    )) as never;
  }

  /** Writes raw records, system fields included. */
  async insert(object: string, records: Record<string, unknown>[]): Promise<string[]> {
    return ((await this.#control('POST', `records/${object}`, records)) as { ids: string[] }).ids;
  }

  /** Changes raw records that have these values, system fields included. */
  async edit(object: string, where: Record<string, string>, change: Record<string, unknown>): Promise<void> {
    await this.#control('PATCH', `records/${object}?${new URLSearchParams(where).toString()}`, change);
  }

  /** Puts a record into the recycle bin, or takes it out again. */
  async bin(object: string, externalId: string, move: 'delete' | 'undelete' = 'delete'): Promise<void> {
    await this.#control('POST', `records/${object}/${move}?External_Id__c=${externalId}`);
  }

  /** Empties the recycle bin of the records that have these values, and says how many there were. */
  async purge(object: string, where: Record<string, string>): Promise<number> {
    const path = `records/${object}/purge?${new URLSearchParams(where).toString()}`;
    return ((await this.#control('POST', path)) as { purged: number }).purged;
  }

  /** Deletes the records with these External IDs, past the recycle bin. */
  async remove(object: string, externalIds: string[]): Promise<void> {
    for (const id of externalIds) await this.#control('DELETE', `records/${object}?External_Id__c=${id}`);
  }

  /** Deletes all records of an object. */
  async clear(object: string): Promise<void> {
    await this.#control('DELETE', `records/${object}`);
  }

  /** Arms a fault for the next calls that match. */
  async arm(fault: {
    match: object;
    effect: object;
    times?: number;
    probability?: number;
    seed?: number;
  }): Promise<ArmedFault> {
    const { id } = (await this.#control('POST', 'faults', fault)) as { id: string };
    return {
      hit: async (count = 1) => void (await this.#control('GET', `faults/${id}/await?count=${count}`)),
      release: async () => void (await this.#control('POST', `faults/${id}/release`)),
      remove: async () => void (await this.#control('DELETE', `faults/${id}`)),
    };
  }

  /** Replaces the org's triggers, validation rules and required fields. */
  async automate(automation: object): Promise<void> {
    await this.#control('PUT', 'automation', automation);
  }

  async counters(): Promise<Record<string, unknown>> {
    return (await this.#control('GET', 'counters')) as never;
  }

  /** Until the service has asked what objects there are, which is its first call after its start. */
  async untilDescribed(): Promise<void> {
    await eventually(async () => assert.notEqual((await this.counters())['metered'], 0));
  }

  /** The armed faults, and how often each has struck. */
  async faults(): Promise<{ effect: { kind: string }; hits: number }[]> {
    return (await this.#control('GET', 'faults')) as never;
  }

  /** Removes all faults; what they hold goes on. */
  async disarm(): Promise<void> {
    await this.#control('DELETE', 'faults');
  }

  /** Changes the org's settings, such as `dailyLimit`. */
  async change(settings: object): Promise<void> {
    await this.#control('PATCH', 'settings', settings);
  }

  async revokeTokens(): Promise<void> {
    await this.#control('POST', 'tokens/revoke');
  }

  /** No faults, no records but the seed, counters at 0. */
  async reset(): Promise<void> {
    await this.#control('POST', 'reset');
  }

  async #control(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.url}/simulator/${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}

export interface ArmedFault {
  /** Resolves when it has struck so often. */
  hit(count?: number): Promise<void>;
  /** Lets the calls go on that it holds. */
  release(): Promise<void>;
  remove(): Promise<void>;
}
