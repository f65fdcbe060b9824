import { crmName } from './page-facts.ts';

/** Names of the API that say too little, or something else, as words. */
const special: Record<string, string> = {
  id: 'ID',
  trip_id: 'Trip',
  member_id: 'Member',
  source: 'Supplier',
  email: 'E-mail',
  created_at: 'Created',
  updated_at: 'Changed',
  start_at: 'Starts',
  erased_at: 'Personal data erased',
  party_size: 'Guests',
  booking_id: "Partner's booking",
  apiKey: 'API key',
  crmShare: `Share of ${crmName} calls (%)`,
  certificateNames: 'Certificate names',
  allowance: 'Allowance',
  rateLimitPerMinute: 'Requests per minute',
};

/** The label of a field of the API: `Created by` of `created_by`, `Check in` of `checkIn`. Fields that a mapping adds too. */
export function labelOf(field: string): string {
  // What a supplier has sent may have fields such as `constructor`.
  const words = Object.hasOwn(special, field)
    ? (special[field] as string)
    : field.replace(camelCase, (_, before: string, first: string) => `${before} ${first.toLowerCase()}`);
  const text = words.replace(/[_\s]+/g, ' ').trim();
  return text === '' ? field : text.charAt(0).toUpperCase() + text.slice(1).replace(/ id$/, ' ID');
}

const camelCase = /([a-z\d])([A-Z])(?=[a-z]|$)/g;

/** `1 second`, `1,200 seconds`. */
export function countOf(count: number, unit: string): string {
  return `${count.toLocaleString('en')} ${unit}${count === 1 ? '' : 's'}`;
}
