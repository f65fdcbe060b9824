import { codeOf, titleOf, type Write } from './answers.ts';
import {
  type Answer,
  type Collection,
  type Ending,
  type Purpose,
  poison,
  type Request,
  type Row,
  type Values,
} from './facts.ts';

export type Creation = Extract<Purpose, { kind: 'creation' }>;

export interface Known {
  readonly write: Write;
  readonly creation: Creation;
  /** Its External ID, once somebody was told. */
  id: string | undefined;
  values: Values;
  /** It was deleted, by the gateway with 204 or in the org, and not restored since. */
  isDeleted: boolean;
  /** One client at a time writes it. */
  isBusy: boolean;
  /** When somebody in the org worked with it last, in milliseconds of virtual time. */
  editedAt: number;
}

/** Records: one for each key, as it was acknowledged last; what was deleted stays deleted. */
export class Records {
  readonly known: Known[] = [];
  readonly #violate: (what: string) => void;

  constructor(violate: (what: string) => void) {
    this.#violate = violate;
  }

  begin(write: Write, creation: Creation): Known {
    const { values } = creation;
    const known = {
      write,
      creation,
      id: undefined,
      values,
      isDeleted: false,
      isBusy: true,
      editedAt: Number.NEGATIVE_INFINITY,
    };
    this.known.push(known);
    return known;
  }

  /** The last word about a change or a deletion. */
  settle(known: Known, write: Write, final: Answer | undefined): void {
    if (final === undefined) return;
    const { purpose } = write;
    if (final.status < 300 && purpose.kind === 'change')
      known.values = { ...known.values, ...purpose.values };
    if (final.status === 204) known.isDeleted = true;
    if (purpose.kind === 'change') {
      const { name = '' } = purpose.values;
      this.#checkRefusal(write, final, name);
      if (final.status < 300 && name.startsWith(poison))
        this.#violate(`${titleOf(write)} got ${final.status}, though the org refuses it`);
    }
    known.isBusy = false;
  }

  /** The org refuses what is poisoned, and nothing else. */
  #checkRefusal(write: Write, { text }: Answer, name: string): void {
    if (codeOf(text) === 'crm_rejected' && !name.startsWith(poison))
      this.#violate(`${titleOf(write)} was refused, though the org had nothing against it: ${text}`);
  }

  /** A read shows what was acknowledged last, unless somebody wrote it meanwhile. `before`: the record when the read began. */
  checkRead(before: Known, known: Known, { path, as }: Request, answer: Answer | undefined): void {
    const isTheSame = before.values === known.values && before.isDeleted === known.isDeleted;
    if (known.isBusy || !isTheSame || before.id !== known.id) return;
    const shown = shownBy(answer);
    const wanted = known.isDeleted ? 'nothing' : `${known.values.name}, ${known.values.source}`;
    if (shown !== undefined && shown !== wanted)
      this.#violate(`GET ${path} of ${as} shows ${shown}, not ${wanted}`);
  }

  free(): Known[] {
    return this.known.filter(({ id, isBusy }) => id !== undefined && !isBusy);
  }

  freeInOrg(): Known[] {
    return this.free().filter(({ write }) => write.request.as !== 'tester');
  }

  check(ending: Ending): void {
    for (const shown of ending.shown) this.#checkList(shown, ending.live.get(shown.collection) ?? []);
    for (const collection of ['quotes', 'bookings'] as const) {
      const live = byTrip(ending.live.get(collection));
      const binned = byTrip(ending.binned.get(collection));
      const world = byTrip(ending.world.get(collection));
      for (const known of this.known.filter(({ creation }) => creation.collection === collection)) {
        const { trip } = known.creation;
        const rows = { live: live.get(trip) ?? [], binned: binned.get(trip) ?? [] };
        if (known.write.request.as !== 'tester') this.#checkOne(known, rows, ending);
        else if (rows.live.length + rows.binned.length > 0)
          this.#violate(`${titleOf(known.write)} of a test consumer is in the org`);
        else this.#checkOne(known, { live: world.get(trip) ?? [], binned: [] }, ending);
      }
    }
  }

  /** Each replica lists each record of the org once, as it is there. */
  #checkList({ by, collection, records }: Ending['shown'][number], rows: readonly Row[]): void {
    const left = new Map(rows.map((row) => [String(row['External_Id__c']).toLowerCase(), row]));
    for (const { id, name, source } of records) {
      const row = left.get(String(id));
      left.delete(String(id));
      const has =
        row === undefined ? 'no other one' : `${String(row['Name__c'])}, ${String(row['Source__c'])}`;
      if (has !== `${String(name)}, ${String(source)}`)
        this.#violate(`${by} lists ${String(id)} of ${collection} as ${String(name)}; the org has ${has}`);
    }
    for (const id of left.keys()) this.#violate(`${by} doesn't list ${id} of ${collection}`);
  }

  #checkOne(known: Known, rows: { live: Row[]; binned: Row[] }, ending: Ending): void {
    const title = titleOf(known.write);
    const all = rows.live.length + rows.binned.length;
    if (all > 1)
      return this.#violate(`${title} has made ${all} records: ${idsOf([...rows.live, ...rows.binned])}`);
    const { final } = known.write;
    if (final === undefined) return;
    const wanted = this.#wanted(known, final, ending);
    if (wanted === undefined) return;
    if (wanted === 'none') return this.#checkNone(known, final, rows.live);
    // A world has no recycle bin.
    const isGone = known.write.request.as === 'tester' && known.isDeleted;
    if (all === 0 && !isGone) return this.#violate(`${title} was ${final.status}, but no record was made`);
    this.#checkLife(known, rows.live);
  }

  #checkNone({ write, creation }: Known, final: Answer, live: readonly Row[]): void {
    this.#checkRefusal(write, final, creation.values.name);
    if (live.length > 0)
      this.#violate(`${titleOf(write)} ended without a record, but ${idsOf(live)} is live`);
  }

  #checkLife(known: Known, live: readonly Row[]): void {
    const title = titleOf(known.write);
    if (known.isDeleted && live.length > 0)
      return this.#violate(`the record ${known.id} of ${title} was deleted, but it is live`);
    if (!known.isDeleted && live.length === 0)
      return this.#violate(`the record ${known.id} of ${title} is gone, but nobody has deleted it`);
    const [row] = live;
    if (row === undefined) return;
    const { name, source } = known.values;
    if (row['Name__c'] !== name || row['Source__c'] !== source)
      this.#violate(
        `the record ${known.id} is ${String(row['Name__c'])}, ${String(row['Source__c'])}, not ${name}, ${source}`,
      );
  }

  /** Undefined: nobody can say. */
  #wanted({ write }: Known, final: Answer, { views }: Ending): 'made' | 'none' | undefined {
    if (final.status === 201) return 'made';
    if (final.status !== 202) return 'none';
    const { external_id: id } = JSON.parse(final.text) as { external_id: string };
    const view = views.get(`/v1/handoffs/${id}`)?.text ?? '{}';
    const { status = 'nothing' } = JSON.parse(view) as { status?: string };
    const left = leftBy[status];
    if (left === undefined) this.#violate(`the hand-off ${id} of ${write.request.as} ends as ${status}`);
    return left;
  }
}

/** By the last status of an accepted hand-off. */
const leftBy: Readonly<Record<string, 'made' | 'none'>> = {
  created: 'made',
  failed: 'none',
  cancelled: 'none',
  rejected: 'none',
};

/** Name and source; undefined where it was not answered. */
function shownBy(answer: Answer | undefined): string | undefined {
  if (answer?.status === 404) return 'nothing';
  if (answer?.status !== 200) return undefined;
  const body = JSON.parse(answer.text) as Values & { data?: Values[] };
  const records = body.data ?? [body];
  return records.map(({ name, source }) => `${name}, ${source}`).join(' and ') || 'nothing';
}

function byTrip(rows: readonly Row[] = []): Map<string, Row[]> {
  return Map.groupBy(rows, (row) => String(row['Trip_Id__c']));
}

export function idsOf(rows: readonly Row[]): string {
  return rows.map((row) => `${String(row['External_Id__c'])} (${String(row['Id'])})`).join(' and ');
}

/** The object of the org behind a collection. */
export function objectOf(collection: Collection): string {
  return collection === 'quotes' ? 'Quote__c' : 'Booking__c';
}
