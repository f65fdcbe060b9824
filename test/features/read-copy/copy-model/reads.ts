import type { Model } from './model.ts';
import { type Kind, showBody } from './org-history.ts';

const asked = [
  ...['max-age=60', 'max-age=60', 'max-age=5', 'max-age=2', 'max-age=1', 'no-cache', ''],
  ...['stale-if-error=60', 'stale-if-error=60', 'no-cache, stale-if-error=60'],
];

/** A read that has begun, and what is known before it. */
class Read {
  readonly #model: Model;
  readonly #path: string;
  readonly #header: string;
  readonly #mostAge: number;
  readonly #from: number;
  readonly #start = performance.now();
  readonly #floors: ReadonlyMap<string, number>;
  /** Of the answer; null where it has none. */
  age: string | null = null;
  status = 0;
  text = '';
  #to = 0;

  constructor(model: Model, path: string) {
    this.#model = model;
    this.#path = path;
    this.#header = model.pick(asked);
    this.#mostAge = Number(/\d+/.exec(this.#header)?.[0] ?? 0);
    this.#from = model.history.look();
    this.#floors = new Map(model.floors);
  }

  async send(): Promise<void> {
    const { status, text, headers } = await this.#model.send('GET', this.#path, {
      ...(this.#header !== '' && { headers: { 'cache-control': this.#header } }),
    });
    this.#to = this.#model.history.look();
    this.age = headers.get('age');
    Object.assign(this, { status, text });
    if (Number(this.age) > this.#mostAge) this.#report('it is older than was asked for', this.#path);
  }

  /** What was shown of a record is one of its states of that time. */
  check(kind: Kind, id: string, found: string | null, trip?: string): void {
    // Who says that there is none does not show.
    const age = this.status === 404 ? this.#mostAge : Number(this.age);
    const since = age === 0 ? undefined : this.#start - age * 1000;
    const moments = { from: this.#from, to: this.#to, since, floor: this.#floors.get(id) };
    const wrong = this.#model.history.explain(kind, id, found, moments, trip);
    if (wrong !== undefined) this.#report(wrong, id);
  }

  #report(wrong: string, about: string): void {
    const facts = `${this.#path} asked at ${Math.round(this.#start)} with ${this.#header}, Age ${this.age}`;
    this.#model.report(`${facts}: ${wrong}`, about);
  }
}

/** One read of a record or of a list, from any replica, that takes an answer of any age. */
export async function read(model: Model): Promise<void> {
  const kinds: [number, () => Promise<void>][] = [
    [50, () => readRecord(model, 'quote', model.pick(model.quotes))],
    [15, () => readRecord(model, 'member', model.pick(model.members))],
    [20, () => readList(model, model.pick(model.trips))],
    [15, () => readList(model)],
  ];
  await model.pickWeighted(kinds)();
}

async function readRecord(model: Model, kind: Kind, id: string): Promise<void> {
  const answer = new Read(model, `/v1/${kind}s/${id}`);
  await answer.send();
  if (answer.status !== 200 && answer.status !== 404) return;
  model.count(`${kind} of ${answer.age === null ? 'the CRM' : 'the copy'}`);
  answer.check(kind, id, answer.status === 404 ? null : showBody(kind, answer.text).shown);
}

async function readList(model: Model, trip?: string): Promise<void> {
  const answer = new Read(model, `/v1/quotes?limit=100${trip === undefined ? '' : `&trip_id=${trip}`}`);
  await answer.send();
  if (answer.status !== 200) return;
  model.count(`list of ${answer.age === null ? 'the CRM' : 'the copy'}`);
  // As they stand in the answer, digit for digit.
  const items = answer.text.match(/\{"id":"[^]*?"updated_at":"[^"]*"\}/g) ?? [];
  const listed = new Map(items.map((item) => [showBody('quote', item).id, showBody('quote', item).shown]));
  for (const id of model.history.ids('quote')) answer.check('quote', id, listed.get(id) ?? null, trip);
}
