import { isQuotaUsedUp, type Quota } from '../shared/outage.ts';
import { crmName } from '../shared/page-facts.ts';

/** A part of the service in the health report. */
export interface PartState {
  connected: boolean;
  [fact: string]: unknown;
}

/** The health report. */
export interface Health {
  status: 'ok' | 'unavailable';
  [part: string]: PartState | string;
}

export function partOf(health: Health, name: string): PartState | undefined {
  const part = health[name];
  return typeof part === 'object' ? part : undefined;
}

export function numberOf(state: PartState | undefined, fact: string): number | undefined {
  const value = state?.[fact];
  return typeof value === 'number' ? value : undefined;
}

/** How a part is, in a word. Only what does not work at all is `bad`. */
export interface PartLook {
  name: string;
  title: string;
  tone: 'good' | 'waiting' | 'bad';
  word: string;
}

const titles: Record<string, string> = {
  crm: crmName,
  secretsManager: 'Secrets manager',
  database: 'Database',
  cache: 'Cache',
  dining: 'Dining partner',
  handoffs: 'Queued hand-offs',
  changes: 'Change feed',
  copy: 'Copy of records',
};

/** A hand-off that waits longer than this is no longer just on its way. */
const longSeconds = 60;

/** Every part as it is shown; the headline follows from them. */
export function looksOf(health: Health): PartLook[] {
  return Object.entries(health).flatMap(([name, state]): PartLook[] => {
    if (typeof state !== 'object') return [];
    const title = titles[name] ?? name;
    return [{ name, title, ...(lookOf[name] ?? connection)(state, health) }];
  });
}

type Look = Pick<PartLook, 'tone' | 'word'>;

const lookOf: Record<string, (state: PartState, health: Health) => Look> = {
  crm: (state) => {
    if (!state.connected) return connection(state);
    if (isQuotaUsedUp(state['quota'] as Quota | undefined)) return { tone: 'waiting', word: 'quota used up' };
    const needsSomebody = state['reason'] !== undefined || state['lacks'] !== undefined;
    return needsSomebody ? { tone: 'waiting', word: 'needs attention' } : connection(state);
  },
  handoffs: (state) =>
    state.connected
      ? currency((numberOf(state, 'oldest_seconds') ?? 0) <= longSeconds)
      : { tone: 'bad', word: 'not working' },
  changes: followed,
  copy: followed,
};

/** Parts that follow Salesforce can't be up to date while it's away. */
function followed(state: PartState, health: Health): Look {
  const isPaused = partOf(health, 'crm')?.connected === false;
  return isPaused ? { tone: 'waiting', word: 'paused' } : currency(state.connected);
}

function currency(isCurrent: boolean): Look {
  return isCurrent ? { tone: 'good', word: 'up to date' } : { tone: 'waiting', word: 'behind' };
}

function connection({ connected }: PartState): Look {
  return connected ? { tone: 'good', word: 'connected' } : { tone: 'bad', word: 'not connected' };
}

/** `All systems operational`, or each part that is otherwise, by the word for it. */
export function headlineOf(looks: readonly PartLook[]): string {
  const others = Map.groupBy(
    looks.filter(({ tone }) => tone !== 'good'),
    ({ word }) => word,
  );
  if (others.size === 0) return 'All systems operational';
  const parts = [...others].map(
    ([word, of]) => `${capital(word)}: ${of.map(({ title }) => title).join(', ')}`,
  );
  return parts.join('. ');
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
