import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Answer, RequestOptions } from './api.ts';

/** The signed-in consumer's own record, as the API shows it. */
export interface OwnConsumer {
  id: string;
  name: string;
  permissions: { resource: string; actions: string[]; records?: 'all' | 'own' }[];
}

/** What the service says of itself before anybody signs in. */
export interface Facts {
  environment: string;
  version: string;
  record_url: string | null;
}

export interface Session {
  consumer: OwnConsumer;
  facts: Facts;
  /** Asks for the facts again: the address of records is known only once the CRM was reached. */
  refreshFacts(): Promise<Facts>;
  send(path: string, options?: RequestOptions): Promise<Answer>;
  can(resource: string, action: string): boolean;
  /** Shows a secret in place of all pages until the person says that it is stored. */
  showSecret(secret: NewSecret): void;
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

/** GET as JSON. Where digits count, use `send` and its text. */
export async function read<T>(session: Pick<Session, 'send'>, path: string): Promise<T> {
  return JSON.parse((await session.send(path)).text) as T;
}

/** A path with its query, without the parameters that are empty. */
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}
