import { type RawBuilder, sql } from 'kysely';
import { type PackedAnswer, packAnswer } from '../../api/idempotency/answer-text.ts';
import { completeForPlan } from '../../api/idempotency/claims-table.ts';
import type { StoredAnswer } from '../../api/idempotency/keyed-request.ts';
import type { Visible } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { isDuplicate, orUnavailable } from '../../platform/store/failures.ts';
import {
  deadlineFromNow,
  firstFence,
  forgetRows,
  type Held,
  leaseEnd,
  leasesOf,
} from '../../platform/store/leases.ts';
import {
  changeInChunks,
  interval,
  isOfTest,
  isRowVisible,
  jsonText,
  timeNow,
  withoutNulls,
} from '../../platform/store/statements.ts';
import type { Creator } from '../../records/created-by.ts';
import { addEvents, type NewEvent } from '../events/event-log.ts';
import type {
  ListedPlan,
  Plan,
  PlanState,
  PlanStep,
  Refusal,
  ReservationOrder,
  ReservationStatus,
  WaitingRequest,
} from './plan.ts';

interface NewPlan {
  id: string;
  order: ReservationOrder;
  details: string | undefined;
  partner: string;
  tableToken: string;
  request: WaitingRequest;
  creator: Creator;
}

export type TakenPlan = Plan & Held;

export interface PlanQuery {
  status?: ReservationStatus | undefined;
  tripId?: string | undefined;
  memberId?: string | undefined;
  consumerId?: string | undefined;
  after?: { createdAt: string; id: string } | undefined;
  limit: number;
}

export type RequestOutcome = 'made' | 'refused' | 'cancelled' | 'not_cancelled';

export interface Move {
  state: PlanState;
  table?: Plan['table'];
  refusal?: Refusal;
  attention?: string;
  outcome?: RequestOutcome;
  /** Seconds after which the job checks it again. */
  again?: number;
  looksAgain?: boolean;
}

/** Columns as `listed` names them. */
type Row = Omit<Plan, 'table' | 'creator'> &
  Plan['creator'] & {
    reference: string | undefined;
    tableStatus: NonNullable<Plan['table']>['status'] | undefined;
  };

/** Outcome of `erase` for a reservation of the member: false where it is not finished. */
interface ErasedPlan {
  id: string;
  state: PlanState;
  status: ReservationStatus;
  is_erased: boolean;
}

const mostSteps = 1000;
const changedAtOnce = 500;

const lease = leasesOf({ table: 'reservations', row: 'p', key: ['id'] });
const listed = `p.id, p.state, p.state_before as "stateBefore", p.status, p.attention, p.ordered as "order", p.partner,
   p.table_token as "tableToken", p.table_reference as reference, p.table_status as "tableStatus", p.refusal, p.owed as request,
   p.fence::text, p.attempts, p.created_at as "createdAt", p.updated_at as "updatedAt", p.erased_at as "erasedAt",
   p.consumer_id as "consumerId", p.consumer_name as "consumerName", p.actor, p.actor_subject as subject`;
const listedColumns = sql.raw(listed);
const columns = sql.raw(`${listed}, p.details`);
const creating = sql.raw("('making_booking', 'booking_table', 'writing_outcome', 'undoing')");
const cancelling = sql.raw("('cancelling_table', 'writing_cancellation')");
const finished = sql.raw("('confirmed', 'cancelled', 'refused', 'failed')");
/**
 * Keeps of the order only what reads and a cancellation need: a field that is added to it is erased with the rest.
 * Clients rely on a name being there.
 */
const erasure = sql`
  erased_at = ${timeNow}, details = null, refusal = null, actor = null, actor_subject = null,
  ordered = jsonb_build_object('tripId', p.ordered -> 'tripId', 'name', '(erased)', 'table', jsonb_build_object(
    'memberId', p.ordered #> '{table,memberId}', 'startAt', p.ordered #> '{table,startAt}',
    'timeZone', p.ordered #> '{table,timeZone}',
    'partySize', p.ordered #> '{table,partySize}', 'durationMinutes', p.ordered #> '{table,durationMinutes}',
    'merchantId', '', 'serviceId', '',
    'guest', jsonb_build_object('givenName', '', 'familyName', '', 'email', '', 'phone', '')))`;

export class PlansTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Stores a new plan and takes it (`fresh`: nobody had it before); or takes the unfinished one that an earlier owner of
   * the same key left. Undefined where another driver has it, or where it is done.
   */
  async begin(plan: NewPlan): Promise<{ plan: TakenPlan; fresh: boolean } | undefined> {
    const { id, order, details = null, partner, tableToken, request, creator } = plan;
    const query = sql<{ fresh: boolean }>`
      insert into reservations as p (id, state, ordered, details, partner, table_token, owed, fence, lease_until,
        next_attempt_at, created_at, updated_at, consumer_id, consumer_name, actor, actor_subject, steps)
      values (${id}, 'making_booking', ${JSON.stringify(order)}::jsonb, ${details}, ${partner}, ${tableToken},
        ${JSON.stringify(request)}::jsonb, ${firstFence}, ${leaseEnd}, now(), ${timeNow}, ${timeNow},
        ${creator.consumerId ?? null}, ${creator.consumerName ?? null}, ${creator.actor ?? null},
        ${creator.subject ?? null}, jsonb_build_array(${stepTo(sql`'making_booking'`)}))
      on conflict (id) do update set ${lease.begin}
      where p.owed is not null and p.state in ${creating} and ${lease.isOver}
      returning ${columns}, xmax = 0 as fresh`;
    // Lost on its way back, the plan may be there, and the job would drive it.
    const withDeadline = deadlineFromNow();
    const [row] = withDeadline(await this.#rows(query, true));
    return row && { plan: toTaken(row), fresh: row.fresh };
  }

  /**
   * Takes a reservation to cancel it: one that rests, one that needs attention, or one whose cancellation under the
   * same key was interrupted. A driver that asks about a pending one is replaced. Undefined where none of this fits, or
   * where it has changed since `seen`.
   */
  async beginCancel(
    id: string,
    request: WaitingRequest,
    visible: Visible,
    seen?: Date,
  ): Promise<TakenPlan | undefined> {
    const isUnchanged = seen ? sql`p.updated_at = ${seen}` : sql`true`;
    const query = sql<object>`
      update reservations p set ${lease.begin}, owed = ${JSON.stringify(request)}::jsonb, attention = null, attempts = 0,
        state_before = case when p.state in ${cancelling} then p.state_before else p.state end,
        state = case when p.state in ${cancelling} then p.state else 'cancelling_table' end,
        steps = case when p.state in ${cancelling} then p.steps else ${stepsWith(sql`'cancelling_table'`)} end
      where p.id = ${id} and ${isVisible(visible)} and ${isUnchanged} and (p.state in ('pending', 'confirmed')
        or (p.attention is not null and ${lease.isOver})
        or (p.state in ${cancelling} and ${lease.isOver} and p.owed ->> 'consumerId' = ${request.consumerId}
          and p.owed ->> 'key' = ${request.key}))
      returning ${columns}`;
    const withDeadline = deadlineFromNow();
    return withDeadline(await this.#rows(query, true)).map(toTaken)[0];
  }

  async takeDue(): Promise<TakenPlan | undefined> {
    const where = sql`(state not in ${finished} or looks_again) and next_attempt_at <= now()`;
    const due = { where, orderBy: 'next_attempt_at', limit: 1, returning: columns };
    return (await atStore(() => lease.takeDue<object>(this.#database.sql, due))).map(toTaken)[0];
  }

  /**
   * Moves a plan on under its fence. Where the move answers the keyed request, its claim is completed and the event of
   * the move added in the same transaction. Undefined, and nothing is changed, for a driver that was replaced. Throws
   * `partner_rejected` where another plan has the table.
   */
  async move(
    plan: TakenPlan,
    move: Move,
    {
      answer,
      eventOf,
    }: {
      answer: (moved: Plan, outcome: RequestOutcome) => StoredAnswer;
      /** Undefined where the move is no event. */
      eventOf: (moved: Plan, from: Plan) => NewEvent | undefined;
    },
  ): Promise<
    { plan: TakenPlan; answer?: StoredAnswer | undefined; packed?: PackedAnswer | undefined } | undefined
  > {
    const { request, deadline } = plan;
    const { outcome } = move;
    if (!outcome) {
      const work = () => moving(plan, move).execute(this.#database.sql).catch(throwTaken);
      const [row] = (await atStore(work)).rows;
      return row && { plan: { ...toPlan(row), deadline } };
    }
    const inTransaction = async (transaction: Database['sql']) => {
      const [row] = (await moving(plan, move).execute(transaction)).rows;
      if (!row) return undefined;
      const moved = toPlan(row);
      const stored = request && answer({ ...moved, request }, outcome);
      const packed = stored && (await packAnswer(stored));
      if (request && packed) await completeForPlan(transaction, request, packed);
      const event = eventOf(moved, plan);
      if (event) await addEvents(transaction, [event]);
      return { plan: { ...moved, deadline }, answer: stored, packed };
    };
    return atStore(() => this.#database.sql.transaction().execute(inTransaction));
  }

  /**
   * Gives a plan back as it is; the job takes it after this many seconds, a repeat may at once. A plan that its last move has already
   * given back stays due when that move says.
   */
  async release({ id, fence }: Plan, seconds: number): Promise<void> {
    await sql`
      update reservations p set ${lease.end}, next_attempt_at = now() + ${interval(seconds)}, attempts = attempts + 1
      where id = ${id} and ${lease.isOf(fence)} and not ${lease.isOver}`.execute(this.#database.sql);
  }

  /** Deletes a plan that made nothing, so that its key is free for another try; false where another driver has it. */
  async drop({ id, fence }: Plan): Promise<boolean> {
    const query = sql`delete from reservations p where id = ${id} and ${lease.isOf(fence)}`;
    return (await query.execute(this.#database.sql)).numAffectedRows === 1n;
  }

  async find(id: string, visible: Visible): Promise<Plan | undefined> {
    const query = sql<object>`select ${columns} from reservations p where p.id = ${id} and ${isVisible(visible)}`;
    return (await this.#rows(query)).map(toPlan)[0];
  }

  async steps(id: string): Promise<PlanStep[]> {
    const [row] = await this.#rows<{ steps: PlanStep[] }>(
      sql`select steps from reservations where id = ${id}`,
    );
    return row?.steps ?? [];
  }

  async list(
    { status, tripId, memberId, consumerId, after, limit }: PlanQuery,
    visible: Visible,
  ): Promise<ListedPlan[]> {
    const conditions = [
      isVisible(visible),
      ...(consumerId === undefined ? [] : [sql`p.consumer_id = ${consumerId}`]),
      sql`p.state <> 'refused'`,
      ...(status === undefined ? [] : [sql`p.status = ${status}`]),
      ...(tripId === undefined ? [] : [sql`p.ordered ->> 'tripId' = ${tripId}`]),
      ...(memberId === undefined ? [] : [sql`p.ordered #>> '{table,memberId}' = ${memberId}`]),
      ...(after === undefined
        ? []
        : [sql`(p.created_at, p.id) < (${after.createdAt}::timestamptz, ${after.id}::uuid)`]),
    ];
    const rows = await this.#rows(
      sql<object>`select ${listedColumns} from reservations p where ${sql.join(conditions, sql` and `)}
        order by p.created_at desc, p.id desc limit ${limit}`,
    );
    return rows.map(toPlan);
  }

  async holds(id: string, visible: Visible): Promise<boolean> {
    const rows = await this.#rows(sql`
      select 1 from reservations p where p.id = ${id} and ${isVisible(visible)}
        and p.state not in ('cancelled', 'refused', 'failed')`);
    return rows.length > 0;
  }

  async owes(externalId: string): Promise<boolean> {
    const rows = await this.#rows(sql`
      select 1 from reservations p where p.state not in ${finished} and p.owed ->> 'externalId' = ${externalId}`);
    return rows.length > 0;
  }

  /**
   * Whether a table of the plan's guest, at its time, belongs to another plan. Throws `partner_error` while it may belong to
   * one that waits for the partner's answer. Of two that wait the older one goes first, once the other was repeated in vain:
   * else both would wait for ever.
   */
  async isOthersTable(reference: string, id: string): Promise<boolean> {
    const others = await this.#rows<{ has_table: boolean }>(sql`
      select other.table_reference is not null as has_table
      from reservations p join reservations other on other.id <> p.id
        and ${isOfTest(sql`other.consumer_id`)} = ${isOfTest(sql`p.consumer_id`)}
      where p.id = ${id} and (other.table_reference = ${reference}
        or (other.state = 'booking_table'
          and other.ordered #> '{table,memberId}' = p.ordered #> '{table,memberId}'
          and other.ordered #> '{table,startAt}' = p.ordered #> '{table,startAt}'
          and (other.attempts < 2 or (other.created_at, other.id) < (p.created_at, p.id))))`);
    if (others.some(({ has_table }) => has_table)) return true;
    if (others.length === 0) return false;
    const detail = "It isn't known yet which of the guest's reservations for this time has the table.";
    throw new Problem('partner_error', detail, { outcomeUnknown: true });
  }

  /** Deletes the reservations of a consumer that are this many days old, whatever their state. Throws what the database does. */
  forget(consumerId: string, days: number): Promise<void> {
    const where = sql`consumer_id = ${consumerId} and created_at <= now() - ${interval(days * 86_400)}`;
    const rows = { from: sql`reservations p`, key: 'id', where, isIdle: lease.isOver };
    return forgetRows(this.#database.bulk, rows);
  }

  /** Deletes refused ones that are older; until then another request with the same key can't start again. */
  async clearRefused(hours: number, signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      delete from reservations where id in (
        select id from reservations
        where state = 'refused' and not looks_again and updated_at <= now() - ${interval(hours * 3600)}
        limit ${limit} for update skip locked)`;
    await changeInChunks(this.#database.bulk, changedAtOnce, statement, signal);
  }

  /**
   * Erases the personal data of finished reservations that ended this many days ago, a chunk at a time; returns how many.
   * Throws what the database does.
   */
  eraseOlderThan(days: number, signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      update reservations p set ${erasure} where id in (
        select id from reservations
        where erased_at is null and state in ${finished} and ends_at <= now() - ${interval(days * 86_400)}
        limit ${limit} for update skip locked)`;
    return changeInChunks(this.#database.bulk, changedAtOnce, statement, signal);
  }

  /**
   * Erases the personal data in the finished reservations of a member; returns those that had any. One that is not
   * finished still needs it. Throws what the database does.
   */
  async eraseMember(memberId: string): Promise<ErasedPlan[]> {
    const { rows } = await sql<ErasedPlan>`
      with mine as (
        select id, state, status from reservations
        where erased_at is null and ordered #>> '{table,memberId}' = ${memberId}
      ), erased as (
        update reservations p set ${erasure} from mine where p.id = mine.id and p.state in ${finished} returning p.id
      )
      select mine.id, state, status, erased.id is not null as is_erased from mine left join erased using (id)
      order by mine.id`.execute(this.#database.bulk);
    return rows;
  }

  async #rows<R>(query: RawBuilder<R>, outcomeUnknown = false): Promise<R[]> {
    return (await atStore(() => query.execute(this.#database.sql), outcomeUnknown)).rows;
  }
}

function moving({ id, fence }: Plan, move: Move) {
  const { state, table, refusal, attention, outcome, again, looksAgain } = move;
  // A driver that has the answer, or whose plan rests, drives no further.
  const ends = outcome !== undefined || again !== undefined;
  return sql<object>`
    update reservations p set state = ${state}, steps = ${stepsAfter(state, attention)}, attempts = 0,
      updated_at = case when p.looks_again and p.state = ${state} then p.updated_at else ${timeNow} end,
      looks_again = ${looksAgain === true}, attention = ${attention ?? null},
      table_reference = coalesce(${table?.reference ?? null}, p.table_reference),
      table_status = coalesce(${table?.status ?? null}, p.table_status),
      refusal = coalesce(${refusal ? jsonText(refusal) : null}::jsonb, p.refusal),
      owed = case when ${outcome !== undefined} then null else p.owed end,
      ${ends ? sql`${lease.end},` : sql``} next_attempt_at = now() + ${interval(again ?? 0)}
    where p.id = ${id} and ${lease.isOf(fence)}
    returning ${columns}`;
}

function throwTaken(error: unknown): never {
  if (!isDuplicate(error)) throw error;
  const partnerCause = 'SLOT_ALREADY_BOOKED_BY_USER';
  const detail = `The table belongs to another reservation of the guest: ${partnerCause}.`;
  throw new Problem('partner_rejected', detail, { partnerCause });
}

function stepTo(step: RawBuilder<unknown>) {
  return sql`jsonb_build_object('step', ${step}::text, 'at', ${timeNow})`;
}

function stepsWith(step: RawBuilder<unknown>) {
  return sql`case when jsonb_array_length(p.steps) < ${mostSteps} then p.steps || ${stepTo(step)} else p.steps end`;
}

function stepsAfter(state: PlanState, attention: string | undefined) {
  if (attention !== undefined)
    return sql`case when p.attention is null then ${stepsWith(sql`'needs_attention'`)} else p.steps end`;
  return sql`case when p.state = ${state} then p.steps else ${stepsWith(sql`${state}`)} end`;
}

function isVisible(visible: Visible) {
  return isRowVisible(visible, sql`p.consumer_id`);
}

/** Without details where the row has none. */
function toPlan(row: object): Plan {
  const { reference, tableStatus, consumerId, consumerName, actor, subject, ...plan } = withoutNulls(
    row,
  ) as Row;
  const hasTable = reference !== undefined && tableStatus !== undefined;
  return {
    ...plan,
    table: hasTable ? { reference, status: tableStatus } : undefined,
    creator: { consumerId, consumerName, actor, subject },
  };
}

function toTaken(row: Held): TakenPlan {
  return { ...toPlan(row), deadline: row.deadline };
}

function atStore<T>(work: () => Promise<T>, outcomeUnknown = false): Promise<T> {
  return orUnavailable(work, { keeps: 'keeps the reservations', outcomeUnknown });
}
