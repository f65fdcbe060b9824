import type { Consumer } from '@handoff-gateway/client';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Caller } from './api.ts';
import type { Approvals } from './approvals.ts';
import type { Memory } from './memory.ts';
import type { Outage } from './outage.ts';

/** The signed-in consumer's own record. */
export type OwnConsumer = Consumer;

export interface Session extends Caller {
  consumer: OwnConsumer;
  /** Tells the person apart from others who act as the same consumer; null where a key is used. */
  mark: string | null;
  memory: Memory;
  outage: Outage;
  approvals: Approvals;
  can(resource: string, action: string): boolean;
  /** Shows a secret in place of all pages until the person says that it is stored. */
  showSecret(secret: NewSecret): void;
  /** Tells what was done: to eyes at the edge of the page, and to screen readers. */
  say(text: string): void;
}

/** Credentials that are shown this one time. */
export interface NewSecret {
  title: string;
  apiKey?: string;
  secret: string;
  note: string;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('nobody is signed in');
  return session;
}

export function allows(consumer: OwnConsumer, resource: string, action: string): boolean {
  return consumer.permissions.some((one) => one.resource === resource && one.actions.includes(action));
}

export function canReadRecords({ can }: Session): boolean {
  return can('quotes', 'read') || can('bookings', 'read') || can('members', 'read');
}

/** Whether what it does is not for real: the ids of such consumers have a beginning of their own. */
export function isTest({ id }: Pick<OwnConsumer, 'id'>): boolean {
  return id.startsWith('con_test00');
}

/** Whether another consumer has to approve what it hands off as this resource. */
export function needsApproval(consumer: OwnConsumer, resource: string): boolean {
  return consumer.permissions.some((one) => one.resource === resource && one.approval === true);
}

/** GET as JSON. Where digits count, use `send` and its text. */
export async function read<T>(session: Pick<Session, 'send'>, path: string): Promise<T> {
  return JSON.parse((await session.send(path)).text) as T;
}

/** A path with its query, without the parameters that are empty. */
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  if (given.length === 0) return path;
  return `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams(given)}`;
}

/** What of a filter can be sent: nobody asks for an empty text. */
type Given<T> = { [Name in keyof T]?: Exclude<T[Name], ''> };

/** The filters that are set, for the client. */
export function onlyGiven<T extends Record<string, string>>(filters: T): Given<T> {
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== '')) as Given<T>;
}
