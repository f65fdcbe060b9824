import { type Static, type TSchema, Type } from 'typebox';
import { noExample } from '../../../platform/base/current-schema.ts';
import { type CompactJson, compactField, isObject } from '../../../platform/base/json-text.ts';
import { readMoment } from '../../../platform/base/moment.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { isUuid } from '../../../platform/base/text.ts';
import {
  type HandedOff,
  pointerTo,
  readDetails,
  requireStorable,
  valuesFrom,
} from '../../../records/field-values.ts';
import { quote } from '../../../records/quotes-and-bookings.ts';
import { type Resource, schemaOfAllowed } from '../../../records/resource.ts';
import type { HandoffCrm, HandoffRequest, HandoffType } from '../handoff.ts';

const { fields } = quote;

export const offerFields = {
  type: Type.Enum(['quote', 'booking'], {
    description: 'Type of record that the result becomes in the CRM.',
  }),
  result: Type.Object(
    { name: fields.name.schema, source: fields.source.schema, details: fields.details.schema },
    { additionalProperties: false, description: 'The search result that was chosen.' },
  ),
  valid_until: Type.Optional(
    Type.String({
      format: 'date-time',
      maxLength: 40,
      description: 'When the offer ends; after that, nothing is created.',
      examples: ['2030-03-02T18:00:00.000Z'],
    }),
  ),
  reference: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      format: 'text',
      description:
        "The offer's own reference at its source. If it is handed off again for the same trip, at any time and with any key, the " +
        'offer is found and no second record is created.',
      examples: ['HB-8841273'],
      [noExample]: true,
    }),
  ),
  on_repeat: Type.Optional(
    Type.Enum(['return', 'update'], {
      description:
        'Action if the offer was handed off before: `return` (default) changes nothing, `update` writes name and ' +
        'details again. Needs `reference`.',
      [noExample]: true,
    }),
  ),
};

export const tripFields = { trip_id: fields.trip_id.schema, member_id: fields.member_id.schema };

/** The body with the values that restricted picklists of the org take now, for documents; none are known without an org. */
export function withAllowedValues<S extends TSchema>(
  body: S,
  parts: Partial<Pick<HandoffCrm, 'resources'>>,
): S {
  const replaced = new Map<unknown, TSchema>(
    (['name', 'source'] as const).map((name) => {
      const { schema } = fields[name];
      return [schema, schemaOfAllowed(schema, () => allowedInBoth(parts.resources, name))];
    }),
  );
  const write = (part: unknown): unknown => {
    if (!isObject(part)) return part;
    const entries = Object.entries(part).map(([key, value]) => [key, write(value)]);
    return replaced.get(part) ?? Object.fromEntries(entries);
  };
  return write(body) as S;
}

/** The values of either; undefined where one of them takes others. */
function allowedInBoth(resources: HandoffCrm['resources'] | undefined, name: string): string[] | undefined {
  const lists = [resources?.quote, resources?.booking].map((resource) => resource?.fields[name]?.values);
  return lists.every((list) => list !== undefined) ? [...new Set(lists.flat())] : undefined;
}

const offer = Type.Object(offerFields);
const trip = Type.Object(tripFields);

export type OfferBody = Static<typeof trip> & Static<typeof offer>;

const detailsPath = ['result', 'details'];

/**
 * A hand-off as its body says it. What the mapping takes from it is refused here, before anything is stored. `offerText`: JSON of the
 * offer alone. Throws `invalid_request`, `details_too_large`.
 */
export function readOffer(resource: Resource, body: OfferBody, offerText: string): HandoffRequest {
  requireReference(body);
  const request = requestOf(body, readDetails(offerText, detailsPath, resource));
  readMapped(resource, request);
  return request;
}

/** The parts of an offer that can be read; undefined is what is missing or not as the schema has it. */
export interface SoundOffer {
  type: HandoffType | undefined;
  tripId: string | undefined;
  memberId: string | undefined;
  name: string | undefined;
  source: string | undefined;
  details: CompactJson | undefined;
  validUntil: number | undefined;
  reference: string | undefined;
  onRepeat: HandoffRequest['onRepeat'];
}

/** `offerText`: JSON of the offer alone. */
export function readSound(body: unknown, offerText: string): SoundOffer {
  const given = isObject(body) ? body : {};
  const result = isObject(given['result']) ? given['result'] : {};
  const { type, valid_until, on_repeat } = given;
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const uuid = (value: unknown) => (isUuid(text(value) ?? '') ? text(value)?.toLowerCase() : undefined);
  const details = isObject(result['details']) ? compactField(offerText, detailsPath) : undefined;
  return {
    type: type === 'quote' || type === 'booking' ? type : undefined,
    tripId: uuid(given['trip_id']),
    memberId: uuid(given['member_id']),
    name: text(result['name']),
    source: text(result['source']),
    details,
    validUntil: readMoment(text(valid_until) ?? ''),
    reference: text(given['reference']),
    onRepeat: on_repeat === 'return' || on_repeat === 'update' ? on_repeat : undefined,
  };
}

export function offerProblems(resource: Resource, body: unknown, { type, ...sound }: SoundOffer): Problem[] {
  const { tripId: trip_id, memberId: member_id, name, source, details } = sound;
  const given = { type, trip_id, member_id, name, source, details: details?.text ?? '{}' } as HandedOff;
  return [
    () => requireReference(isObject(body) ? body : {}),
    () => details && requireStorable(details, pointerTo(detailsPath), resource),
    // Another type is mapped otherwise.
    () => type !== undefined && valuesFrom(resource, given),
  ].flatMap((check) => problemsOf(check));
}

/** Throws what is no `Problem`. */
export function problemsOf(check: () => unknown): Problem[] {
  try {
    check();
    return [];
  } catch (error) {
    if (error instanceof Problem) return [error];
    throw error;
  }
}

function requireReference({ reference, on_repeat }: { reference?: unknown; on_repeat?: unknown }): void {
  if (on_repeat === undefined || reference !== undefined) return;
  const message = 'needs a reference; without one, nothing can be found again';
  throw new Problem('invalid_request', `The body's on_repeat ${message}.`, {
    errors: [{ pointer: '#/on_repeat', message }],
  });
}

function readMapped(resource: Resource, { type, tripId, memberId, result }: HandoffRequest): void {
  valuesFrom(resource, { type, trip_id: tripId, member_id: memberId, ...result });
}

function requestOf(body: OfferBody, details: string): HandoffRequest {
  const { type, trip_id, member_id, result, valid_until, reference, on_repeat } = body;
  return {
    type,
    tripId: trip_id.toLowerCase(),
    memberId: member_id.toLowerCase(),
    result: { ...result, details },
    validUntil: valid_until === undefined ? undefined : readMoment(valid_until),
    reference,
    onRepeat: reference === undefined ? undefined : (on_repeat ?? 'return'),
  };
}
