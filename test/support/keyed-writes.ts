import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Credentials } from './gateway.ts';
import type { Org } from './org.ts';

type Method = 'POST' | 'PATCH' | 'DELETE';

/** One write under a key, to be sent again and again. */
export interface KeyedWrite {
  readonly key: string;
  /** Sends it, byte for byte the same each time. */
  send(baseUrl: string, signal?: AbortSignal): Promise<Answer>;
  /** Asserts that an answer is the one that a completed write has. */
  assertDone(answer: Answer): void;
  /** The raw records in the CRM that it is about. */
  records(): Promise<Record<string, unknown>[]>;
  /** Asserts that the CRM holds exactly what the write asks for. */
  assertCarriedOut(): Promise<void>;
}

/** An answer, read to its end. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

export const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true';

/** What a replay repeats byte for byte. */
export function lasting({ status, headers, text }: Answer): object {
  const names = ['content-type', 'location', 'etag'];
  return { status, text, headers: names.map((name) => headers.get(name)) };
}

interface Request {
  method: Method;
  path: string;
  body?: object;
  key?: string | undefined;
  ifMatch?: string | undefined;
}

/** The writes that take a key, as one consumer sends them. */
export class KeyedWrites {
  readonly #org: Org;
  readonly #credentials: Credentials;

  constructor(org: Org, credentials: Credentials) {
    this.#org = org;
    this.#credentials = credentials;
  }

  /** One of each kind, none of them sent; what a change and a deletion need is made through `baseUrl`. */
  async oneOfEach(
    baseUrl: string,
  ): Promise<Record<'creation' | 'handOff' | 'change' | 'deletion', KeyedWrite>> {
    return {
      creation: this.creation(),
      handOff: this.handOff(),
      change: this.change(await this.existing(baseUrl), { name: 'Hotel Alhambra' }),
      deletion: this.deletion(await this.existing(baseUrl)),
    };
  }

  /** Makes a quote and returns its id. */
  async existing(baseUrl: string): Promise<string> {
    const { status, text } = await this.creation().send(baseUrl);
    assert.equal(status, 201, text);
    return (JSON.parse(text) as { id: string }).id;
  }

  creation(): KeyedWrite {
    const trip = randomUUID();
    const body = {
      trip_id: trip,
      member_id: this.#org.memberId,
      name: 'Hotel Miramar',
      source: 'x',
      details: {},
    };
    return this.#newRecord('Quote__c', trip, { method: 'POST', path: '/v1/quotes', body });
  }

  handOff(): KeyedWrite {
    const trip = randomUUID();
    const result = { name: 'Hotel Miramar', source: 'x', details: {} };
    const body = { type: 'booking', trip_id: trip, member_id: this.#org.memberId, result };
    return this.#newRecord('Booking__c', trip, { method: 'POST', path: '/api/v1/handoff', body });
  }

  change(
    id: string,
    body: { name?: string; source?: string },
    more: Pick<Request, 'key' | 'ifMatch'> = {},
  ): KeyedWrite {
    const records = () => this.#org.records('Quote__c', { External_Id__c: id });
    return this.#write({ method: 'PATCH', path: `/v1/quotes/${id}`, body, ...more }, records, {
      assertDone: ({ status, text }) => {
        assert.equal(status, 200, text);
        assert.partialDeepStrictEqual(JSON.parse(text), body);
      },
      assertCarriedOut: async () => {
        const [record, ...others] = await records();
        assert.equal(others.length, 0);
        if (body.name !== undefined) assert.equal(record?.['Name__c'], body.name);
        if (body.source !== undefined) assert.equal(record?.['Source__c'], body.source);
      },
    });
  }

  deletion(id: string, more: Pick<Request, 'key' | 'ifMatch'> = {}): KeyedWrite {
    const records = () => this.#org.records('Quote__c', { External_Id__c: id });
    return this.#write({ method: 'DELETE', path: `/v1/quotes/${id}`, ...more }, records, {
      assertDone: ({ status, text }) => assert.deepEqual({ status, text }, { status: 204, text: '' }),
      assertCarriedOut: async () => assert.deepEqual(await records(), []),
    });
  }

  #newRecord(object: string, trip: string, request: Request): KeyedWrite {
    let made = '';
    const records = () => this.#org.records(object, { Trip_Id__c: trip });
    return this.#write(request, records, {
      assertDone: ({ status, headers, text }) => {
        assert.equal(status, 201, text);
        const body = JSON.parse(text) as { id: string; external_id?: string };
        made = body.external_id ?? body.id;
        assert.equal(headers.get('location')?.endsWith(`/${made}`), true);
      },
      assertCarriedOut: async () => {
        const found = await records();
        assert.deepEqual(
          found.map((record) => record['External_Id__c']),
          [made],
        );
      },
    });
  }

  #write(
    request: Request,
    records: KeyedWrite['records'],
    asserts: Pick<KeyedWrite, 'assertDone' | 'assertCarriedOut'>,
  ): KeyedWrite {
    const { key = randomUUID() } = request;
    return {
      key,
      send: (baseUrl, signal) => this.#send(baseUrl, { ...request, key }, signal),
      records,
      ...asserts,
    };
  }

  async #send(
    baseUrl: string,
    { method, path, body, key = '', ifMatch }: Request,
    signal: AbortSignal | null = null,
  ): Promise<Answer> {
    const response = await fetch(baseUrl + path, {
      method,
      signal,
      headers: {
        'x-api-key': this.#credentials.apiKey,
        'x-api-secret': this.#credentials.apiSecret,
        'idempotency-key': key,
        ...(ifMatch !== undefined && { 'if-match': ifMatch }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }
}

/** Asserts that an answer is this problem and returns its body. */
export function assertAnswerIs(answer: Answer, status: number, code: string): { detail: string } {
  const problem = JSON.parse(answer.text) as { code: string; detail: string };
  assert.deepEqual({ status: answer.status, code: problem.code }, { status, code }, answer.text);
  return problem;
}

/** Asserts that the first request under this key counts as running. */
export function assertInProgress(answer: Answer): void {
  assertAnswerIs(answer, 409, 'idempotency_in_progress');
  assert.equal(answer.headers.get('retry-after'), '1');
}

/** Sends a write that was cut off: it is carried out now, and replayed from then on. */
export async function assertFinishes(write: KeyedWrite, baseUrl: string): Promise<void> {
  const answer = await write.send(baseUrl);
  write.assertDone(answer);
  assert.equal(isReplay(answer), false);
  await write.assertCarriedOut();
  await assertReplays(write, baseUrl, answer);
}

/** Sends a write again whose answer was stored: it is replayed. */
export async function assertIsStored(write: KeyedWrite, baseUrl: string): Promise<void> {
  const answer = await write.send(baseUrl);
  assert.equal(isReplay(answer), true);
  write.assertDone(answer);
  await write.assertCarriedOut();
}

/** Sends a write again that got this answer: it gets it once more, byte for byte. */
export async function assertReplays(write: KeyedWrite, baseUrl: string, answer: Answer): Promise<void> {
  const again = await write.send(baseUrl);
  assert.equal(isReplay(again), true);
  assert.deepEqual(lasting(again), lasting(answer));
}
