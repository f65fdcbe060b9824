import { allows, type Consumer } from '../../identity/consumers/consumer.ts';
import { visibleFields } from '../../identity/consumers/visible-records.ts';
import { type Call, isFieldVisible } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { modeOf } from '../../platform/base/mode.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Fault } from '../../platform/base/problems.ts';
import { isUuid } from '../../platform/base/uuid.ts';
import type { Resources } from '../../records/mapping.ts';
import { unknownMember } from '../../records/members.ts';
import type { MemberCache, RecordCopy } from '../../records/offers.ts';
import type { Resource } from '../../records/resource.ts';
import {
  type HandoffRequest,
  type HandoffType,
  requireSameMember,
  requireValid,
  valuesOf,
} from '../handoff/handoff.ts';
import { type OfferBody, type OfferPlace, offerProblems, readOffer } from '../handoff/routes/body.ts';
import { type HandoffParts, itemIdOf, withoutHidden } from '../handoff/routes/handoff.ts';

/** An item of a body, if it is as the schema has it, and how refusals of it are placed. */
export interface CheckedOffer {
  body: OfferBody;
  place: OfferPlace;
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

interface WhatToCheck {
  /** Of the API's own schema. */
  faults: readonly Fault[];
  offers: readonly CheckedOffer[];
  /** The member's, as it was sent. */
  memberId: string | undefined;
}

interface Checking {
  consumer: Consumer | undefined;
  call: Call;
}

export function isTypeOfHandoff(type: unknown): type is HandoffType {
  return type === 'quote' || type === 'booking';
}

/** An offer that ends within so many milliseconds may end before somebody has decided. */
const soonMs = 600_000;
/** A member that was read so many seconds ago is there. */
const memberSeconds = 300;
/** Records of a trip among which duplicates are looked for. */
const mostOfTrip = 100;

/** All that a hand-off of these offers would be refused for, and what its reader may want to know. Writes nothing. */
export async function checkOffers(
  parts: CheckParts,
  { faults, offers, memberId }: WhatToCheck,
  checking: Checking,
): Promise<Checked> {
  const found = await Promise.all(offers.map((offer) => checkOffer(parts, offer, checking)));
  const ofMember = await checkMember(parts, memberId, checking);
  const problems = [...schemaProblem(faults), ...ofMember, ...found.flatMap((one) => one.problems)].map(
    toFinding,
  );
  return { ok: problems.length === 0, problems, warnings: found.flatMap((one) => one.warnings) };
}

function schemaProblem(faults: readonly Fault[]): Problem[] {
  if (faults.length === 0) return [];
  return [new Problem('invalid_request', 'The body is not valid.', { errors: [...faults] })];
}

function toFinding({ code, message, facts }: Problem): Finding {
  return { code, detail: message, errors: facts.errors ?? [] };
}

async function checkOffer(
  parts: CheckParts,
  { body, place, placed }: CheckedOffer,
  { consumer, call }: Checking,
): Promise<{ problems: Problem[]; warnings: Warning[] }> {
  const resource = parts.resources[body.type];
  const problems = offerProblems(resource, body, place);
  const request = problems.length === 0 ? readOffer(resource, body, place) : undefined;
  const further = request ? [...timeProblems(request), ...orgProblems(resource, request)] : [];
  const known = request ? await knownOf(parts, request, { consumer, call }) : { problems: [], warnings: [] };
  const all = [...problems, ...further, ...known.problems];
  return {
    problems: all.map((problem) => placed(withoutHidden(problem, resource, call) as Problem)),
    warnings: [...(request ? timeWarnings(request) : []), ...known.warnings].map((warning) => ({
      ...warning,
      pointer: pointerOf(placed, warning.pointer),
    })),
  };
}

/** The place of a warning, as refusals of the item are placed. */
function pointerOf(placed: CheckedOffer['placed'], pointer: string): string {
  const [fault] =
    placed(new Problem('invalid_request', '', { errors: [{ pointer, message: '' }] })).facts.errors ?? [];
  return fault !== undefined && 'pointer' in fault ? fault.pointer : pointer;
}

function timeProblems(request: HandoffRequest): Problem[] {
  return problemsOf(() => requireValid(request));
}

function timeWarnings({ validUntil }: HandoffRequest): Warning[] {
  const left = validUntil === undefined ? Number.POSITIVE_INFINITY : validUntil - wallMs();
  if (left <= 0 || left > soonMs) return [];
  const detail = `The offer ends in ${Math.ceil(left / 60_000)} minutes.`;
  return [{ code: 'offer_ends_soon', pointer: '#/valid_until', detail, external_id: null }];
}

/** What the org, as it is described, does not take. */
function orgProblems(resource: Resource, request: HandoffRequest): Problem[] {
  const names = Object.keys(valuesOf(resource, request));
  return problemsOf(() => resource.fit.require('write', names));
}

function problemsOf(check: () => void): Problem[] {
  try {
    check();
    return [];
  } catch (error) {
    if (error instanceof Problem) return [error];
    throw error;
  }
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
  const isTest = modeOf(call.consumerId) === 'test';
  const found = await (isTest ? fetch() : (members()?.find(id, fetch, memberSeconds) ?? fetch()));
  return found === undefined ? [unknownMember('member_id')] : [];
}

/** What is known of the trip without a call to the CRM. */
async function knownOf(
  parts: CheckParts,
  request: HandoffRequest,
  { consumer, call }: Checking,
): Promise<{ problems: Problem[]; warnings: Warning[] }> {
  const { tripId, type, result, memberId } = request;
  const resource = parts.resources[type];
  const own = itemIdOf(parts, request, consumer);
  const ofTrip = await recordsOfTrip(parts, resource, tripId, call);
  const isSeen = consumer !== undefined && seesDuplicates(consumer, resource.collection);
  const item = ofTrip.find(({ id }) => id === own);
  const others = ofTrip.filter(
    ({ id, name, source }) => isSeen && id !== own && name === result.name && source === result.source,
  );
  const detail = `The trip has a ${type} of this name and source already.`;
  return {
    problems: problemsOf(() => requireSameMember(item?.member_id, memberId)),
    warnings: others.map(({ id }) => ({
      code: 'possible_duplicate' as const,
      pointer: '#/result/name',
      detail,
      external_id: id,
    })),
  };
}

/** Whether the caller may know which records of a trip have a name and a source. */
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

/** From the copy, and from the world of a test consumer; none where there is neither. */
async function recordsOfTrip(
  { records, copy }: CheckParts,
  resource: Resource,
  tripId: string,
  call: Call,
): Promise<KnownRecord[]> {
  const query = {
    filters: { trip_id: tripId },
    limit: mostOfTrip,
    maxBytes: 4 * 1024 * 1024,
    represent: ({ id, name, source, member_id }: Readonly<Record<string, string | null>>) =>
      JSON.stringify({ id, name, source, member_id }),
  };
  const isTest = modeOf(call.consumerId) === 'test';
  const page = await (isTest ? records.list(resource, query, call) : copy()?.list(resource, query, call));
  return page?.records.map(({ json }) => JSON.parse(json.toString()) as KnownRecord) ?? [];
}
