import { randomUUID } from 'node:crypto';
import { partnerCredentials, slotInDays } from '../../support/dining-partner.ts';

/** JSON that a test looks into: what is there is what it asserts. */
export type Parsed = ReturnType<typeof JSON.parse>;

export interface Answer {
  status: number;
  type: string;
  text: string;
  body: Parsed;
}

/** Calls as a careful client sends them, byte by byte what the test says. */
export async function post(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const { username, password } = partnerCredentials;
  const response = await fetch(`${url}/v3/${method}`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return read(response);
}

export async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  const type = response.headers.get('content-type') ?? '';
  return {
    status: response.status,
    type,
    text,
    body: type.includes('json') && text ? JSON.parse(text) : text,
  };
}

/** Epoch seconds of 19:00 UTC in so many days. */
export const startInDays = (days: number): number => Date.parse(slotInDays(days)) / 1000;

export interface BookingValues {
  userId?: string;
  token?: string;
  start?: number;
  party?: number;
  minutes?: number;
}

export function createRequest(values: BookingValues = {}) {
  const {
    userId = randomUUID(),
    token = randomUUID(),
    start = startInDays(5),
    party = 4,
    minutes = 90,
  } = values;
  return {
    idempotency_token: token,
    slot: {
      merchant_id: 'casa-olivo-7',
      service_id: 'table',
      start_sec: String(start),
      duration_sec: String(minutes * 60),
      resources: { party_size: party },
    },
    user_information: {
      user_id: userId,
      given_name: 'Ines',
      family_name: 'Marrero',
      telephone: '+34 600 000 114',
      email: 'ines.m@example.com',
    },
    payment_information: { prepayment_status: 'PREPAYMENT_NOT_PROVIDED' },
  };
}
