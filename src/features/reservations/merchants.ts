import { type Static, Type } from 'typebox';
import { Problem } from '../../platform/base/problem.ts';

const shortText = (description: string, example: string) =>
  Type.String({ minLength: 1, maxLength: 255, description, examples: [example] });

export const merchantSchema = Type.Object(
  {
    merchant_id: shortText("The partner's id of the restaurant.", 'casa-olivo-7'),
    name: shortText('Name, for people.', 'Casa Olivo'),
    time_zone: Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'IANA name of its time zone.',
      examples: ['Europe/Madrid'],
    }),
    services: Type.Array(
      Type.Object(
        {
          service_id: shortText("The partner's id of the service.", 'table'),
          name: shortText('Name, for people.', 'Table'),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 100, description: 'A service that can be booked there.' },
    ),
  },
  { additionalProperties: false, title: 'Merchant', description: 'A restaurant of the dining partner.' },
);

export type Merchant = Static<typeof merchantSchema>;

interface Wanted {
  merchantId: string;
  serviceId: string;
}

/** Why no such table can be asked for; undefined where it can, or where nobody has said what the partner offers. */
export function whyNotOffered(
  merchants: readonly Merchant[],
  { merchantId, serviceId }: Wanted,
): string | undefined {
  if (merchants.length === 0) return undefined;
  const found = merchants.find(({ merchant_id }) => merchant_id === merchantId);
  if (found === undefined)
    return "There's no restaurant with this merchant_id. GET /v1/dining/merchants lists them all.";
  if (found.services.some(({ service_id }) => service_id === serviceId)) return undefined;
  const known = found.services.map(({ service_id }) => service_id).join(', ');
  return `${found.name} has no service with this service_id. It has: ${known}.`;
}

/** Throws `partner_rejected` for a table of a restaurant or service that is not there. Only before anything is begun. */
export function requireOffered(merchants: readonly Merchant[], slot: Wanted): void {
  const why = whyNotOffered(merchants, slot);
  if (why !== undefined) throw new Problem('partner_rejected', why, { partnerCause: 'UNKNOWN_SERVICE' });
}
