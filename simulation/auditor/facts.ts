/** An answer as a client got it. */
export interface Answer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
}

/** Request of a client: the same bytes each time that it repeats it. */
export interface Request {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  /** Name of the consumer. */
  as: string;
  key?: string;
  body?: string;
  headers?: Record<string, string>;
  /** Tool of the Model Context Protocol that is called with it. */
  tool?: string;
}

export type Purpose =
  | { kind: 'creation'; collection: Collection; trip: string; values: Values }
  | { kind: 'change'; record: string; values: Partial<Values> }
  | { kind: 'deletion'; record: string }
  | { kind: 'trip'; trip: string; asked: readonly Asked[] }
  | { kind: 'reservation'; trip: string; startSec: number }
  | { kind: 'cancellation'; trip: string };

export type Collection = 'quotes' | 'bookings';
export type Values = { name: string; source: string };

/** An offer that is handed off with its trip, and again where it has a reference. */
export interface Item {
  /** Stands in the details of its record. */
  readonly mark: string;
  readonly type: 'quote' | 'booking';
  readonly source: string;
  readonly reference: string | undefined;
  /** External ID, once somebody was told. */
  id: string | undefined;
  /** Contents of which its record has one. */
  contents: Content[];
  /** Contents of which its record will have one, if the hand-off that waits ends well. */
  waiting: Content[] | undefined;
  /** Contents of hand-offs that waited, and were replaced while they did. */
  earlier?: Content[];
  /** Somebody was told that it has a record. */
  isMade: boolean;
  /** Its record was deleted in the org since. */
  isDeleted: boolean;
  /** When somebody was told last that a request has made its record, in milliseconds of virtual time. */
  madeAt?: number;
  /**
   * It was handed off again soon after its record had been made and deleted, by a request whose calls to the org may have been lost: the
   * clocks may differ by more than lay between, so nobody can say whose the deleted one was.
   */
  isDoubtful: boolean;
}

export type Content = { name: string; night: number };

/** An item as a request hands it off. */
export interface Asked {
  readonly item: Item;
  readonly content: Content;
  /** Replaces what was there. */
  readonly isUpdate: boolean;
}

/** A row of the org. */
export type Row = Readonly<Record<string, unknown>>;

/** A booking in the partner's books. */
export interface Table {
  booking_id: string;
  status: string;
  start_sec: number;
}

export interface FeedEvent {
  id: string;
  type: string;
  resource: { type: string; id: string };
  data: Record<string, unknown>;
  data_omitted?: boolean;
}

/** Events that an endpoint has received. */
export interface Received {
  readonly consumer: string;
  readonly path: string;
  /** By their ids. */
  readonly events: Map<string, FeedEvent>;
  /** Ids of those that weren't signed with its secret. */
  readonly forged: Set<string>;
  /** Ids of the events of the feed from before it was made. */
  earlier: ReadonlySet<string>;
  /** Its owner has deleted it. */
  isDeleted: boolean;
  /** Ids of those that came well after its deletion. */
  readonly late: Set<string>;
}

/** Everything as it stands when all faults are over and nobody has anything left to do. */
export interface Ending {
  /** Rows of the org by object, live and in the recycle bin. */
  live: ReadonlyMap<Collection, readonly Row[]>;
  binned: ReadonlyMap<Collection, readonly Row[]>;
  tables: readonly Table[];
  /** Answers to `GET` of accepted hand-offs and reservations, by path. */
  views: ReadonlyMap<string, Answer>;
  /** By consumer. */
  feeds: ReadonlyMap<string, readonly FeedEvent[]>;
  lists: ReadonlyMap<string, readonly Record<string, unknown>[]>;
  /** All records as each replica shows them to the boss. */
  shown: readonly { by: string; collection: Collection; records: readonly Record<string, unknown>[] }[];
  /** Records of the tester's world, as rows. */
  world: ReadonlyMap<Collection, readonly Row[]>;
  /** Last names of the members that the org has reported: as each replica shows them, and as the org has them. */
  members: readonly { id: string; shown: string | undefined; name: string }[];
  /** Who still gets answers with a pair that is over. */
  intruders: readonly string[];
  received: readonly Received[];
  /** Work in the database that nobody has finished, one line each. */
  unfinished: readonly string[];
  /** Metered calls: as the org counts them, as the ledger of usage does, and as the budget does (undefined: no budget). */
  calls: { counted: number; charged: number; budgeted: number | undefined };
}

/** How names begin over which a trigger in the org throws. */
export const poison = 'Poison';
