import { Type } from 'typebox';
import {
  type Doer,
  entry,
  type FoundEntry,
  type HistorySource,
  historySources,
  historySubjects,
} from '../../api/history.ts';
import { type Core, defineFeature, type Erasure, type ErasureStores, type Started } from '../../feature.ts';
import { visibleFields, visibleRecords } from '../../identity/consumers/permissions.ts';
import { adapterFor, isFieldVisible, type Mode } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { defineOffer } from '../../platform/base/offers.ts';
import { Problem } from '../../platform/base/problem.ts';
import { shareProbe } from '../../platform/observability/health.ts';
import { makeMetrics } from '../../platform/observability/metrics.ts';
import { oneOf, seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';
import { leaseLock } from '../../platform/store/database-locks.ts';
import { viewOfCreator } from '../../records/created-by.ts';
import { memberSourceOf } from '../../records/member-names.ts';
import { testWorlds } from '../../records/offers.ts';
import { handoffContents } from '../events/handoff-contents.ts';
import type { Approval, StoredHandoff } from './accepted.ts';
import { registerHandoffCommands } from './cli.ts';
import { createFindContents } from './contents.ts';
import { targets } from './handoff.ts';
import { leaseSeconds } from './handoff-delivery.ts';
import { AcceptedHandoffs, type Handoffs } from './handoffs.ts';
import { HandoffsTable } from './handoffs-table.ts';
import { loadItemIds } from './items.ts';
import { type HandoffMetrics, handoffMetrics } from './metrics.ts';
import { acceptedHandoffRoutes, find } from './routes/accepted-handoffs.ts';
import { approvalRoutes } from './routes/approvals.ts';
import { type HandoffParts, handoffRoute } from './routes/handoff.ts';
import { handoffEventData } from './routes/schemas.ts';

function createHandoffHistory(handoffs: Handoffs): HistorySource {
  return async ({ type, id }, { consumer }) => {
    if (type === 'reservation') return [];
    const stored = await find(handoffs, id, consumer, 'read').catch(noneIfAbsent);
    if (stored === undefined || (type !== 'handoff' && stored.type !== type)) return [];
    const fields = visibleFields(consumer, targets[stored.type].collection);
    return entriesOf(stored, isFieldVisible(fields, 'created_by'));
  };
}

function noneIfAbsent(error: unknown): undefined {
  if (!(error instanceof Problem && error.code === 'not_found')) throw error;
}

function entriesOf(handoff: StoredHandoff, showsMaker: boolean): FoundEntry[] {
  const { approval, acceptedAt } = handoff;
  const by = showsMaker ? viewOfCreator(handoff) : null;
  return [
    entry(acceptedAt, 'requested', { by, endpoint: 'POST /api/v1/handoff', once: 'requested' }),
    approval
      ? entry(acceptedAt, 'awaiting_approval', { by, once: 'awaiting_approval' })
      : entry(acceptedAt, 'accepted', { by }),
    ...decisionOf(approval),
    ...endOf(handoff, by),
  ];
}

function decisionOf(approval: Approval | undefined): FoundEntry[] {
  if (approval?.decidedAt === undefined) return [];
  const { status, decidedAt, decidedBy } = approval;
  if (status !== 'approved' && status !== 'rejected') return [];
  return [entry(decidedAt, status, { by: doerOf(decidedBy), once: status })];
}

function doerOf(decider: Approval['decidedBy']): Doer | null {
  return decider === undefined ? null : { ...decider, verified: decider.verified ?? false };
}

function endOf({ status, completedAt }: StoredHandoff, by: Doer | null): FoundEntry[] {
  if (completedAt === undefined) return [];
  if (status === 'created') return [entry(completedAt, status, { by, once: status })];
  // A hand-off that is delivered again may fail again.
  if (status === 'failed')
    return [entry(completedAt, status, { once: `failed ${completedAt.toISOString()}` })];
  return status === 'cancelled' ? [entry(completedAt, status)] : [];
}

const handoffSettings = {
  'handoff.whenCrmIsUnavailable': setting(
    'HANDOFF_WHEN_CRM_IS_UNAVAILABLE',
    oneOf('refuse', 'accept'),
    'refuse',
    'While Salesforce is unavailable, refuse (502, 503, 504) or store (202) hand-offs without `Prefer: respond-async`.',
  ),
  'handoff.queueLimit': setting(
    'HANDOFF_QUEUE_LIMIT',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    100_000,
    'Most stored hand-offs that may wait; more get 503.',
  ),
  'handoff.queueLimitPerConsumer': setting(
    'HANDOFF_QUEUE_LIMIT_PER_CONSUMER',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    (earlier) => Math.max(1, Math.floor(Number(earlier['handoff.queueLimit']) / 5)),
    'Most stored hand-offs of one consumer; defaults to a fifth of `handoff.queueLimit`.',
  ),
  'handoff.repeatWindowSeconds': setting(
    'HANDOFF_REPEAT_WINDOW_SECONDS',
    seconds(0, 86_400),
    0,
    "How long a consumer's identical hand-off without Idempotency-Key counts as a repeat; 0 turns it off.",
  ),
};

type HandoffSettings = SettingsOf<typeof handoffSettings>;

const handoffPart: SettingsPart = { table: handoffSettings };

const most = 2_147_483_647;

const handoffHealth = Type.Object(
  {
    connected: Type.Boolean({ description: "False if the database can't be reached." }),
    waiting: Type.Optional(
      Type.Integer({ minimum: 0, maximum: most, description: 'Accepted hand-offs that wait for the CRM.' }),
    ),
    oldest_seconds: Type.Optional(
      Type.Integer({ minimum: 0, maximum: most, description: 'How long the oldest of them has waited.' }),
    ),
  },
  {
    description: "Hand-offs that were answered 202 and aren't delivered yet.",
    examples: [{ connected: true, waiting: 0, oldest_seconds: 0 }],
  },
);

export const handoffParts = defineOffer<HandoffParts>('the parts of hand-offs');

/** Time limit of a batch, in milliseconds: short, to notice soon what hangs. With a budget a batch waits for its call too. */
const batchMs = { usual: 5000, withBudget: 25_000 };

export const handoff = defineFeature({
  name: 'handoff',
  settings: handoffPart,
  metrics: handoffMetrics,
  tags: {
    'Hand-off': 'The chosen search result becomes a quote or a booking in the CRM, in one call.',
  },
  health: { handoffs: handoffHealth },
  start,
  routes: (parts: HandoffParts, cursors) => [
    handoffRoute(parts),
    ...acceptedHandoffRoutes(parts, cursors),
    ...approvalRoutes(parts.handoffs),
  ],
  commands: registerHandoffCommands,
  erasers: [{ part: 'handoffs', otherFields: { waiting_handoffs: [] }, erase }],
});

async function start(core: Core<HandoffSettings, HandoffMetrics>): Promise<Started<HandoffParts>> {
  const { settings, database, records, resources, consumers, metrics, offers, opened } = core;
  const idOfItem = await loadItemIds(core.secrets);
  const owner = randomUUID();
  const ofMode = (mode: Mode, lock: string) =>
    new AcceptedHandoffs({
      ...core,
      ...settings.handoff,
      mode,
      // Gauges and counters are those of live ones.
      metrics: mode === 'live' ? metrics : makeMetrics(handoffMetrics, []),
      batchMs: settings.crm.dailyCallBudget === undefined ? batchMs.usual : batchMs.withBudget,
      lease: () => leaseLock(database, lock, owner, leaseSeconds),
      eventData: handoffEventData,
      visibleTo: (consumerId, resource) => {
        const consumer = consumers.directory.consumer(consumerId);
        return consumer ? visibleRecords(consumer, resource) : 'all';
      },
    });
  const handoffs = liveOrTestHandoffs({
    live: ofMode('live', 'handoff-delivery'),
    test: ofMode('test', 'test-handoff-delivery'),
  });
  offers.find(testWorlds)?.emptying.add((...of) => new HandoffsTable(database).forget(...of));
  opened.defer(() => handoffs.stop());
  core.offers.add(historySubjects, 'handoff');
  core.offers.add(historySources, createHandoffHistory(handoffs));
  offers.make(handoffContents, createFindContents(database));
  core.crm.schema.repaired.add(() =>
    handoffs.resume().catch((err: unknown) => core.log.warn({ err }, 'what waits goes on after its pause')),
  );
  handoffs.start();
  const { repeatWindowSeconds } = settings.handoff;
  const memberSource = memberSourceOf(core);
  const parts: HandoffParts = { records, resources, handoffs, memberSource, idOfItem, repeatWindowSeconds };
  offers.make(handoffParts, parts);
  return {
    routes: parts,
    health: { handoffs: shareProbe(() => handoffs.checkHealth()) },
    jobs: [
      {
        name: 'clear-handoffs',
        cron: '57 * * * *',
        steps: { handoffs: (signal) => handoffs.deleteOld(signal) },
      },
    ],
  };
}

/** Separate for live and test consumers: neither fills the queue of the other, nor holds its delivery up. */
function liveOrTestHandoffs(handoffs: Record<Mode, Handoffs>): Handoffs {
  const { live, test } = handoffs;
  const of = (one: { consumerId?: string | undefined }) => adapterFor(one, handoffs);
  return {
    whenCrmIsUnavailable: live.whenCrmIsUnavailable,
    handOff: (request, options, call) => of(call).handOff(request, options, call),
    meet: (items, options, call) => of(call).meet(items, options, call),
    find: (externalId) => live.find(externalId),
    hasStored: (externalIds, since) => live.hasStored(externalIds, since),
    list: (query) => live.list(query),
    details: (externalId) => live.details(externalId),
    namesFrom: (stored) => live.namesFrom(stored),
    decide: (decision) => of({ consumerId: decision.by.consumer_id }).decide(decision),
    retry: (stored) => of(stored).retry(stored),
    cancel: (stored, options) => of(stored).cancel(stored, options),
    checkHealth: () => live.checkHealth(),
    deleteOld: (signal) => live.deleteOld(signal),
    resume: () => live.resume(),
    start() {
      live.start();
      test.start();
    },
    async stop() {
      await Promise.all([live.stop(), test.stop()]);
    },
  };
}

async function erase(memberId: string, { database }: ErasureStores): Promise<Erasure> {
  const found = await new HandoffsTable(database).eraseMember(memberId);
  const idsOf = (isErased: boolean) => found.filter((one) => one.is_erased === isErased).map(({ id }) => id);
  const [erased, waiting] = [idsOf(true), idsOf(false)];
  return {
    label: 'hand-offs',
    count: erased.length,
    fields: { handoffs: erased, waiting_handoffs: waiting },
    left: waiting.map(
      (id) => `hand-off ${id} is waiting to be delivered. Cancel it or wait, then run this again.`,
    ),
  };
}
