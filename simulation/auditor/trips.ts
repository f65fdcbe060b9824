import { codeOf, titleOf, type Write } from './answers.ts';
import { type Answer, type Asked, type Content, type Ending, type Item, poison, type Row } from './facts.ts';
import { idsOf } from './records.ts';

/** Items that are handed off together, and again. One client at a time does so. */
export interface Trip {
  readonly id: string;
  readonly member: string;
  readonly as: string;
  readonly items: Item[];
  isBusy: boolean;
}

interface Said {
  status: string;
  external_id: string | null;
  problem?: { code: string };
}

/** A deleted record that is older was not made by a request whose calls were lost. In milliseconds. */
const mostSkewMs = 60_000;

const waits = new Set(['accepted', 'awaiting_approval']);

/** Trips: each item once, or none of those that only go together; the newest acknowledged content stands. */
export class Trips {
  readonly known: Trip[] = [];
  readonly #violate: (what: string) => void;
  readonly #now: () => number;

  constructor(violate: (what: string) => void, now: () => number) {
    this.#violate = violate;
    this.#now = now;
  }

  begin(trip: Pick<Trip, 'id' | 'member' | 'as'>): Trip {
    const known = { ...trip, items: [], isBusy: true };
    this.known.push(known);
    return known;
  }

  free(): Trip[] {
    return this.known.filter(({ isBusy, items }) => !isBusy && items.length > 0);
  }

  /** Hand-offs that may wait. */
  waiting(): { id: string; as: string }[] {
    return this.known.flatMap(({ as, items }) =>
      items.flatMap(({ id, waiting }) => (id === undefined || waiting === undefined ? [] : [{ id, as }])),
    );
  }

  /** The last word about a request. `isAlone`: no other one is about the same items. */
  settle(write: Write, asked: readonly Asked[], final: Answer, isAlone = true): void {
    const body = JSON.parse(final.text) as Partial<Said> & { items?: Said[] };
    if (final.status >= 300) return this.#refused(write, asked, final.text);
    const said = body.items ?? [body as Said];
    if (said.length !== asked.length)
      return this.#violate(`${titleOf(write)} answers ${said.length} of ${asked.length} items`);
    const ids = new Set(said.map((one) => one.external_id ?? Symbol('none')));
    if (ids.size < said.length) this.#violate(`${titleOf(write)} gives two items one id: ${final.text}`);
    for (const [at, one] of said.entries()) this.#settleItem(write, asked[at] as Asked, one, isAlone);
  }

  #refused(write: Write, asked: readonly Asked[], text: string): void {
    const isPoisoned = asked.some(({ content }) => content.name.startsWith(poison));
    if (codeOf(text) === 'crm_rejected' && !isPoisoned)
      this.#violate(`${titleOf(write)} was refused, though the org had nothing against it: ${text}`);
  }

  #settleItem(write: Write, asked: Asked, said: Said, isAlone: boolean): void {
    const { item } = asked;
    const title = `${titleOf(write)}, item ${item.mark}`;
    const { status, external_id: id } = said;
    if (status === 'failed') return this.#failed(write, asked, said);
    if (id !== null && item.id !== undefined && item.id !== id)
      this.#violate(`${title} is ${id} now, and was ${item.id}`);
    item.id = id ?? item.id;
    item.isDoubtful ||= isOfDeleted(write, item);
    const isNew = isAlone && item.waiting === undefined;
    if (waits.has(status)) this.#waits(asked);
    else this.#made(write, asked, { title, status, isNew });
  }

  #waits(asked: Asked): void {
    const { item } = asked;
    item.earlier = [...(item.earlier ?? []), ...(item.waiting ?? [])];
    item.waiting = [...contentsBefore(asked), asked.content];
  }

  /** The item has a record now. `isNew`: what the answer says of that is certain. */
  #made(
    write: Write,
    { item, content }: Asked,
    { title, status, isNew }: { title: string; status: string; isNew: boolean },
  ): void {
    // By the org's dates nobody can tell whether a lost call made it, or a request shortly before.
    const isOurs = status === 'created' && isThere(item) && write.isUncertain;
    if (isNew && !isOurs && !item.isDoubtful) this.#checkStatus(title, item, status);
    item.contents = contentsNow({ item, content }, isOurs ? 'uncertain' : status);
    item.waiting = undefined;
    item.isMade = true;
    if (status === 'created' || item.madeAt === undefined) item.madeAt = this.#now();
    item.isDeleted = false;
  }

  #failed(write: Write, { item, content }: Asked, { problem }: Said): void {
    const title = `${titleOf(write)}, item ${item.mark}`;
    if (write.isAtomic) this.#violate(`${title} failed, though all or none were asked for`);
    if (problem?.code === 'crm_rejected' && !content.name.startsWith(poison))
      this.#violate(`${title} was refused, though the org had nothing against it`);
  }

  #checkStatus(title: string, item: Item, status: string): void {
    if ((status === 'created') === isThere(item))
      this.#violate(`${title} is said to be ${status}, though it ${isThere(item) ? 'was' : "wasn't"} there`);
  }

  check(ending: Ending): void {
    const live = byMark([...ending.live.values()].flat());
    const binned = byMark([...ending.binned.values()].flat());
    for (const trip of this.known) {
      for (const item of trip.items) {
        const rows = { live: live.get(item.mark) ?? [], binned: binned.get(item.mark) ?? [] };
        this.#checkItem(trip, item, rows, ending);
      }
      this.#checkPage(trip, ending);
    }
  }

  #checkItem({ as, id }: Trip, item: Item, rows: { live: Row[]; binned: Row[] }, { views }: Ending): void {
    const title = `the item ${item.mark} of the trip ${id} of ${as}`;
    const { live, binned } = rows;
    if (live.length > 1) return this.#violate(`${title} has ${live.length} records: ${idsOf(live)}`);
    if (item.reference === undefined && live.length + binned.length > 1)
      return this.#violate(`${title} was made twice: ${idsOf([...live, ...binned])}`);
    const contents = contentsAtLast(item, views);
    if (item.isDoubtful || (contents === undefined && isOfEarlier(item, live[0]))) return;
    this.#checkContent(title, live[0], contents);
  }

  /** `contents`: one of which the record should have; undefined where there should be none. */
  #checkContent(title: string, row: Row | undefined, contents: readonly Content[] | undefined): void {
    if (row === undefined) {
      if (contents !== undefined) this.#violate(`${title} has no record, but was handed off`);
      return;
    }
    if (contents === undefined)
      return this.#violate(`${title} ended without a record, but ${idsOf([row])} is live`);
    const has = contentOf(row);
    if (!hasOne(contents, has))
      this.#violate(`${title} is ${JSON.stringify(has)}, not ${JSON.stringify(contents)}`);
  }

  /** The trip shows what the org has of it. */
  #checkPage({ id, as }: Trip, { live, views }: Ending): void {
    const page = views.get(`/v1/trips/${id}`);
    if (page === undefined) return;
    const all = JSON.parse(page.text) as Partial<Record<'quotes' | 'bookings', unknown[]>>;
    for (const collection of ['quotes', 'bookings'] as const) {
      const has = (live.get(collection) ?? []).filter((row) => row['Trip_Id__c'] === id).length;
      const shown = all[collection]?.length ?? 0;
      if (has !== shown)
        this.#violate(`the trip ${id} of ${as} shows ${shown} ${collection}, and the org has ${has}`);
    }
  }
}

function isThere({ isMade, isDeleted }: Item): boolean {
  return isMade && !isDeleted;
}

/** Whether its record may have been taken for one that a lost call of the request has made. */
function isOfDeleted({ isUncertain, begunAt }: Write, { isDeleted, madeAt = 0 }: Item): boolean {
  return isDeleted && (isUncertain || begunAt - mostSkewMs < madeAt);
}

/** Contents that a hand-off that waits now may meet, and leave. */
function contentsBefore({ item, isUpdate }: Asked): Content[] {
  if (isUpdate) return [];
  return item.waiting ?? (isThere(item) ? item.contents : []);
}

function contentsNow({ item, content }: Pick<Asked, 'item' | 'content'>, status: string): Content[] {
  const before = [...item.contents, ...(item.waiting ?? [])];
  if (status === 'existing') return before;
  return status === 'uncertain' ? [...before, content] : [content];
}

function contentsAtLast(item: Item, views: Ending['views']): Content[] | undefined {
  const { waiting, earlier = [], contents } = item;
  const isDelivered = waiting !== undefined && statusIn(views.get(`/v1/handoffs/${item.id}`)) === 'created';
  if (isDelivered) return waiting;
  if (!isThere(item)) return undefined;
  // One that waited before it may have been delivered unheard of.
  return waiting === undefined ? contents : [...contents, ...earlier];
}

/** An update that came to nothing takes nothing away that was acknowledged before it. */
function isOfEarlier({ earlier = [] }: Item, row: Row | undefined): boolean {
  return row !== undefined && hasOne(earlier, contentOf(row));
}

function hasOne(contents: readonly Content[], { name, night }: Content): boolean {
  return contents.some((one) => one.name === name && one.night === night);
}

function statusIn(view: Answer | undefined): string | undefined {
  return (JSON.parse(view?.text ?? '{}') as { status?: string }).status;
}

interface Details {
  item?: string;
  night: number;
}

function detailsOf(row: Row): Details | undefined {
  const text = row['Details__c'];
  return typeof text === 'string' && text.startsWith('{') ? (JSON.parse(text) as Details) : undefined;
}

function contentOf(row: Row): Content {
  return { name: String(row['Name__c']), night: detailsOf(row)?.night ?? 0 };
}

function byMark(rows: readonly Row[]): Map<string, Row[]> {
  return Map.groupBy(rows, (row) => detailsOf(row)?.item ?? '');
}
