import { allows, type Consumer } from '../../identity/consumers/consumer.ts';
import { visibleFields } from '../../identity/consumers/permissions.ts';
import { type Call, isFieldVisible, isTestCall } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { type Fault, isLookedAtAgain, Problem } from '../../platform/base/problem.ts';
import { isUuid } from '../../platform/base/text.ts';
import { namesFrom } from '../../records/field-values.ts';
import type { Resources } from '../../records/mapping.ts';
import { unknownMember } from '../../records/members.ts';
import type { MemberCache, RecordCopy } from '../../records/offers.ts';
import { handedOffFields } from '../../records/quotes-and-bookings.ts';
import type { ListQuery } from '../../records/records.ts';
import { type Field, longerThan, notOneOf, type Resource } from '../../records/resource.ts';
import {
  type HandoffType,
  needsApprovalToUpdate,
  requireSameMember,
  requireValid,
} from '../handoff/handoff.ts';
import { offerProblems, problemsOf, readSound, type SoundOffer } from '../handoff/routes/body.ts';
import { type HandoffParts, itemIdOf, mustBeApproved, withoutHidden } from '../handoff/routes/handoff.ts';
import { requireSameItem } from '../handoff/stored-items.ts';

export interface CheckedOffer {
  body: unknown;
  /** JSON of the offer alone. */
  text: string;
  placed: (problem: Problem) => Problem;
}

export interface Finding {
  code: string;
  detail: string;
  errors: readonly Fault[];
}

export interface Warning {
  code: 'possible_duplicate' | 'offer_ends_soon';
  pointer: string;
  detail: string;
  external_id: string | null;
}

export interface Checked {
  ok: boolean;
  problems: Finding[];
  warnings: Warning[];
}

export interface CheckParts extends HandoffParts {
  resources: Resources;
  members: () => MemberCache | undefined;
  copy: () => RecordCopy | undefined;
}

interface Checking {
  consumer: Consumer | undefined;
  call: Call;
}

/** An offer that ends within so many milliseconds may end before somebody has decided. */
const soonMs = 600_000;
/** A member that was read so many seconds ago is there. */
const memberSeconds = 300;
const mostOfTrip = 100;

export async function checkOffers(
  parts: CheckParts,
  {
    faults,
    offers,
    memberId,
  }: { faults: readonly Fault[]; offers: readonly CheckedOffer[]; memberId: string | undefined },
  checking: Checking,
): Promise<Checked> {
  const lists = new Map<HandoffType, Promise<readonly KnownRecord[]>>();
  const knownOf = (type: HandoffType, tripId: string) => {
    const list = lists.get(type) ?? recordsOfTrip(parts, parts.resources[type], tripId, checking.call);
    lists.set(type, list);
    return list;
  };
  const found = await Promise.all(offers.map((offer) => checkOffer({ ...parts, knownOf }, offer, checking)));
  const ofMember = await checkMember(parts, memberId, checking);
  const named = new Set(faults.map((fault) => ('pointer' in fault ? fault.pointer : '')));
  const others = [...ofMember, ...found.flatMap((one) => one.problems)].filter(
    ({ facts: { errors = [] } }) =>
      errors.length === 0 || !errors.every((fault) => 'pointer' in fault && named.has(fault.pointer)),
  );
  const findings = [...schemaProblem(faults), ...others].map(toFinding);
  const problems = [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
  return { ok: problems.length === 0, problems, warnings: found.flatMap((one) => one.warnings) };
}

function schemaProblem(faults: readonly Fault[]): Problem[] {
  if (faults.length === 0) return [];
  return [new Problem('invalid_request', "The body isn't valid.", { errors: [...faults] })];
}

function toFinding({ code, message, facts }: Problem): Finding {
  return { code, detail: message, errors: facts.errors ?? [] };
}

interface Found {
  problems: Problem[];
  warnings: Warning[];
}

interface OfferParts extends CheckParts {
  knownOf: (type: HandoffType, tripId: string) => Promise<readonly KnownRecord[]>;
}

async function checkOffer(
  parts: OfferParts,
  { body, text, placed }: CheckedOffer,
  checking: Checking,
): Promise<Found> {
  const sound = readSound(body, text);
  // Of an unknown type what both of them refuse.
  const types = sound.type === undefined ? (['quote', 'booking'] as const) : ([sound.type] as const);
  const [first, ...others] = await Promise.all(
    types.map((type) => foundAgain(checking.call, () => offerProblems(parts.resources[type], body, sound))),
  );
  const isOfAll = ({ message }: Problem) =>
    others.every((problems) => problems.some((one) => one.message === message));
  const known = await checkSound(parts, sound, checking);
  const all = [...(first ?? []).filter(isOfAll), ...timeProblems(sound), ...known.problems];
  const shown = all.map((problem) => {
    if (sound.type === undefined) return problem;
    return withoutHidden(problem, parts.resources[sound.type], checking.call) as Problem;
  });
  return {
    problems: shown.map(placed),
    warnings: [...timeWarnings(sound), ...known.warnings].map((warning) => ({
      ...warning,
      pointer: pointerOf(placed, warning.pointer),
    })),
  };
}

function pointerOf(placed: CheckedOffer['placed'], pointer: string): string {
  const [fault] =
    placed(new Problem('invalid_request', '', { errors: [{ pointer, message: '' }] })).facts.errors ?? [];
  return fault !== undefined && 'pointer' in fault ? fault.pointer : pointer;
}

function timeProblems(sound: SoundOffer): Problem[] {
  return problemsOf(() => requireValid(sound));
}

function timeWarnings({ validUntil }: SoundOffer): Warning[] {
  const left = validUntil === undefined ? Number.POSITIVE_INFINITY : validUntil - wallMs();
  if (left <= 0 || left > soonMs) return [];
  const detail = `The offer ends in ${Math.ceil(left / 60_000)} minutes.`;
  return [{ code: 'offer_ends_soon', pointer: '#/valid_until', detail, external_id: null }];
}

async function foundAgain(call: Call, find: () => Problem[]): Promise<Problem[]> {
  const found = find();
  const looks = await Promise.all(found.map((problem) => isLookedAtAgain(call, problem)));
  return looks.some(Boolean) ? find() : found;
}

function orgProblems({ fit }: Resource, names: readonly string[]): Problem[] {
  if (fit.isWhole) return [];
  const needs = ['write', 'create'] as const;
  return needs.flatMap((need) => names.flatMap((name) => problemsOf(() => fit.require(need, [name]))));
}

function valueProblems({ fields, fit }: Resource, sound: SoundOffer): Problem[] {
  return (['name', 'source'] as const).flatMap((name) => {
    const message = refusalOf(sound[name], fields[name]);
    if (message === undefined) return [];
    const pointer = `#/result/${name}`;
    const facts = { errors: [{ pointer, message }], ...fit.lookAgain(`value of ${pointer}`) };
    return [new Problem('crm_rejected', `The CRM refuses the record: ${name} ${message}`, facts)];
  });
}

function refusalOf(value = '', { values, length = value.length }: Partial<Field> = {}): string | undefined {
  if (value === '') return undefined;
  if (values !== undefined && !values.includes(value)) return notOneOf(values);
  return value.length > length ? longerThan(length) : undefined;
}

/** Throws where nobody can say whether there is such a member. */
async function checkMember(
  { records, resources, members }: CheckParts,
  memberId: string | undefined,
  { call }: Checking,
): Promise<Problem[]> {
  // That it is no UUID is told by the schema.
  if (memberId === undefined || !isUuid(memberId)) return [];
  const id = memberId.toLowerCase();
  const taken = { ...call, visible: () => 'all' as const, freshness: { maxAgeSeconds: memberSeconds } };
  const fetch = () => records.find(resources.member, id, taken);
  const found = await (isTestCall(call) ? fetch() : (members()?.find(id, fetch, memberSeconds) ?? fetch()));
  return found === undefined ? [unknownMember('member_id')] : [];
}

/** Makes no call to the CRM: the org's description, the hand-offs that wait and the trip's records say all. */
async function checkSound(parts: OfferParts, sound: SoundOffer, checking: Checking): Promise<Found> {
  const { type, tripId, name, source } = sound;
  if (type === undefined) return { problems: [], warnings: [] };
  const { call } = checking;
  const resource = parts.resources[type];
  const { details } = sound;
  const mapped = namesFrom(resource, {
    ...{ type, trip_id: tripId, member_id: sound.memberId },
    result: { name, source, ...(details !== undefined && { details: JSON.parse(details.text) as unknown }) },
  });
  const ofOrg = [
    ...(isTestCall(call) ? [] : orgProblems(resource, ['id', 'status', ...handedOffFields, ...mapped])),
    ...(await foundAgain(call, () => valueProblems(resource, sound))),
  ];
  if (tripId === undefined) return { problems: ofOrg, warnings: [] };
  const ofTrip = await parts.knownOf(type, tripId);
  const own = ownIdOf(parts, sound, checking.consumer);
  const problems = own === undefined ? [] : await repeatProblems(parts, sound, { own, ofTrip }, checking);
  return {
    problems: [...ofOrg, ...problems],
    warnings: duplicatesOf(sound, ofTrip, { own, resource, consumer: checking.consumer }),
  };
}

function ownIdOf(
  parts: CheckParts,
  { type, tripId, source, reference }: SoundOffer,
  consumer: Consumer | undefined,
): string | undefined {
  if (type === undefined || tripId === undefined || source === undefined) return undefined;
  return itemIdOf(parts, { type, tripId, result: { source }, reference }, consumer);
}

async function repeatProblems(
  { handoffs, resources }: CheckParts,
  { type, memberId, onRepeat }: SoundOffer,
  { own, ofTrip }: { own: string; ofTrip: readonly KnownRecord[] },
  { consumer }: Checking,
): Promise<Problem[]> {
  const item = ofTrip.find(({ id }) => id === own);
  const stored = await handoffs.find(own);
  return [
    ...(memberId === undefined
      ? []
      : problemsOf(() => {
          requireSameItem(stored, { memberId });
          requireSameMember(item?.member_id, memberId);
        })),
    ...(type !== undefined && item && onRepeat === 'update' && mustBeApproved(consumer, type)
      ? [needsApprovalToUpdate(resources[type])]
      : []),
  ];
}

function duplicatesOf(
  { type, name, source }: SoundOffer,
  ofTrip: readonly KnownRecord[],
  {
    own,
    resource,
    consumer,
  }: { own: string | undefined; resource: Resource; consumer: Consumer | undefined },
): Warning[] {
  if (consumer === undefined || !seesDuplicates(consumer, resource.collection)) return [];
  const detail = `The trip already has a ${type} with this name and source.`;
  return ofTrip.flatMap((record) => {
    if (record.id === own || record.name !== name || record.source !== source) return [];
    return [
      { code: 'possible_duplicate' as const, pointer: '#/result/name', detail, external_id: record.id },
    ];
  });
}

function seesDuplicates(consumer: Consumer, collection: Resource['collection']): boolean {
  const visible = visibleFields(consumer, collection);
  return (
    allows(consumer, collection, 'read') &&
    (['trip_id', 'name', 'source'] as const).every((name) => isFieldVisible(visible, name))
  );
}

interface KnownRecord {
  id: string;
  name: string | null;
  source: string | null;
  member_id: string | null;
}

async function recordsOfTrip(
  { records, copy }: CheckParts,
  resource: Resource,
  tripId: string,
  call: Call,
): Promise<KnownRecord[]> {
  const query: ListQuery = {
    filters: { trip_id: tripId },
    limit: mostOfTrip,
    maxBytes: 4 * 1024 * 1024,
    represent: ({ id, name, source, member_id }) => JSON.stringify({ id, name, source, member_id }),
  };
  const source = isTestCall(call) ? records : copy();
  const known: KnownRecord[] = [];
  for (let after: ListQuery['after']; ; ) {
    const limit = mostOfTrip - known.length;
    const page = await source?.list(resource, { ...query, limit, ...(after && { after }) }, call);
    if (page === undefined) return known;
    known.push(...page.records.map(({ json }) => JSON.parse(json.toString()) as KnownRecord));
    // Large records make pages short.
    if (!page.hasMore || known.length >= mostOfTrip) return known;
    after = page.records.at(-1);
  }
}
