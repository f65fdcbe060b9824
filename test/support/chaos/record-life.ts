import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Answer, isReplay, lasting } from '../keyed-writes.ts';
import type { Figures } from './figures.ts';
import { describe, type StubbornClient, type WriteRequest } from './stubborn-client.ts';

type Collection = 'quotes' | 'bookings';
type Fields = { name: string; source: string; details: string };

/** What happens to one record from its first to its last write; known before the first is sent. */
export interface LifePlan {
  collection: Collection;
  /** By a hand-off with a key rather than by POST of the resource. */
  handedOff: boolean;
  trip: string;
  first: Fields;
  changes: Partial<Fields>[];
  deleted: boolean;
}

/** A write that ended in success. */
export interface DoneWrite {
  request: WriteRequest;
  answer: Answer;
}

/** What the CRM must hold of a life when all is over. */
export interface Outcome {
  plan: LifePlan;
  /** Undefined where the first write never ended. */
  id: string | undefined;
  fields: Fields;
  exists: boolean;
}

export interface LifeOptions {
  client: StubbornClient;
  memberId: string;
  random: () => number;
  figures: Figures;
  /** Resolves when the next write may be sent. */
  untilAllowed: () => Promise<void>;
  onDone: (write: DoneWrite) => void;
}

function writesOf({ changes, deleted }: LifePlan): number {
  return 1 + changes.length + (deleted ? 1 : 0);
}

/** Plans lives with so many writes in all. */
export function planLives(writes: number, random: () => number): LifePlan[] {
  const plans: LifePlan[] = [];
  for (let left = writes; left > 0; ) {
    const plan: LifePlan = {
      collection: random() < 0.5 ? 'quotes' : 'bookings',
      handedOff: random() < 0.4,
      trip: randomUUID(),
      first: { name: text(random), source: text(random), details: details(random) },
      changes: Array.from({ length: Math.min(left - 1, Math.floor(random() * 3)) }, () => change(random)),
      deleted: random() < 0.4,
    };
    if (writesOf(plan) > left) plan.deleted = false;
    plans.push(plan);
    left -= writesOf(plan);
  }
  return plans;
}

/** Lives one life through, and reads after each write what it has left. */
export async function liveThrough(plan: LifePlan, options: LifeOptions): Promise<Outcome> {
  const life = new Life(plan, options);
  try {
    await life.run();
  } catch (error) {
    options.figures.violation(error instanceof Error ? error.message : String(error));
  }
  return life.outcome;
}

class Life {
  readonly outcome: Outcome;
  readonly #options: LifeOptions;
  #entityTag: string | undefined;

  constructor(plan: LifePlan, options: LifeOptions) {
    this.outcome = { plan, id: undefined, fields: plan.first, exists: false };
    this.#options = options;
  }

  async run(): Promise<void> {
    const { plan } = this.outcome;
    const created = await this.#write(this.#creation(), 201);
    const { id, external_id: handedOffId } = JSON.parse(created.text) as { id: string; external_id?: string };
    this.outcome.id = handedOffId ?? id;
    this.outcome.exists = true;
    const path = `/v1/${plan.collection}/${this.outcome.id}`;
    if (created.headers.get('location') !== path) throw new Error(`${path} is not in Location`);
    await this.#look(path);
    for (const fields of plan.changes) {
      const body = toJson(fields);
      const ifMatch = this.#precondition();
      await this.#write({ method: 'PATCH', path, key: randomUUID(), body, ifMatch }, 200);
      this.outcome.fields = { ...this.outcome.fields, ...fields };
      await this.#look(path);
    }
    if (!plan.deleted) return;
    await this.#write({ method: 'DELETE', path, key: randomUUID(), ifMatch: this.#precondition() }, 204);
    this.outcome.exists = false;
    await this.#look(path);
  }

  #creation(): WriteRequest {
    const { collection, handedOff, trip, first } = this.outcome.plan;
    const about = `"trip_id":"${trip}","member_id":"${this.#options.memberId}"`;
    const key = randomUUID();
    if (!handedOff) {
      return { method: 'POST', path: `/v1/${collection}`, key, body: `{${about},${toJson(first).slice(1)}` };
    }
    const body = `{"type":"${collection.slice(0, -1)}",${about},"result":${toJson(first)}}`;
    return { method: 'POST', path: '/api/v1/handoff', key, body };
  }

  async #write(request: WriteRequest, success: number): Promise<Answer> {
    const { client, untilAllowed, random, onDone, figures } = this.#options;
    await untilAllowed();
    const answer = await client.sendUntilDone(request, random() < 0.1);
    if (answer.status !== success) {
      throw new Error(`${describe(request)} ended with ${answer.status} ${answer.text}`);
    }
    figures.writes += 1;
    this.#entityTag = answer.headers.get('etag') ?? undefined;
    onDone({ request, answer });
    if (random() < 0.1) await this.#repeat(request, answer);
    return answer;
  }

  /** A client that has lost its answer, or its memory. */
  async #repeat(request: WriteRequest, first: Answer): Promise<void> {
    const again = await this.#options.client.sendUntilDone(request, false);
    if (isReplay(again) && isDeepStrictEqual(lasting(again), lasting(first))) return;
    this.#options.figures.violation(`${describe(request)} again: ${again.status} ${again.text}`);
  }

  /** With the tag that the last answer carried, for some writes. */
  #precondition(): string | undefined {
    return this.#options.random() < 0.3 ? this.#entityTag : undefined;
  }

  /** What was acknowledged is seen, by whichever replica answers. */
  async #look(path: string): Promise<void> {
    const { client, random, figures } = this.#options;
    const chance = random();
    if (chance < 0.4) return;
    const { plan, exists } = this.outcome;
    if (chance < 0.6) {
      const list = await client.read(`/v1/${plan.collection}?trip_id=${plan.trip}`);
      const { data } = JSON.parse(list.text) as { data: unknown[] };
      if (data.length !== (exists ? 1 : 0)) figures.violation(`${path}: a list shows ${data.length} of it`);
      if (exists) this.#compare(path, list.text, data[0] as Record<string, unknown>);
      return;
    }
    const { status, text: body } = await client.read(path);
    if (status !== (exists ? 200 : 404)) figures.violation(`GET ${path}: ${status} ${body}`);
    else if (exists) this.#compare(path, body, JSON.parse(body) as Record<string, unknown>);
  }

  #compare(path: string, body: string, record: Record<string, unknown>): void {
    const { name, source, details: json } = this.outcome.fields;
    const same =
      record['name'] === name &&
      record['source'] === source &&
      record['trip_id'] === this.outcome.plan.trip &&
      body.includes(`"details":${json}`);
    if (!same) this.#options.figures.violation(`${path} is not as it was acknowledged: ${body}`);
  }
}

function change(random: () => number): Partial<Fields> {
  const chance = random();
  if (chance < 0.3) return { name: text(random) };
  if (chance < 0.6) return { source: text(random), details: details(random) };
  return { name: text(random), source: text(random), details: details(random) };
}

function text(random: () => number): string {
  return `Hotel ${Math.floor(random() * 1e9).toString(36)} ñ`;
}

/** Numbers that no JavaScript number holds, to be kept digit for digit. */
function details(random: () => number): string {
  const digits = () => String(Math.floor(1e15 + random() * 8e15));
  return `{"rate_id":${digits()}${digits()},"net":${Math.floor(random() * 1000)}.40,"rooms":[{}]}`;
}

function toJson({ name, source, details: json }: Partial<Fields>): string {
  const members = [
    ...(name === undefined ? [] : [`"name":${JSON.stringify(name)}`]),
    ...(source === undefined ? [] : [`"source":${JSON.stringify(source)}`]),
    ...(json === undefined ? [] : [`"details":${json}`]),
  ];
  return `{${members.join(',')}}`;
}
