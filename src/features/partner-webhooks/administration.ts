import { hasChanged } from '../../api/pipeline/request-head.ts';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import type { Caller } from '../../identity/consumers/scopes.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { CheckedAddresses } from '../../platform/http/checked-addresses.ts';
import { SecretsUnavailable } from '../../platform/secrets/secrets-manager.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { eventTypes } from '../events/event-log.ts';
import { eventVisibilityOf, shownTo } from '../events/event-visibility.ts';
import { bodyOf } from './deliverer.ts';
import type { DeliveriesTable, DeliveryFilter } from './deliveries-table.ts';
import { type Delivery, type Endpoint, isEventFilter, maxEndpoints, withinScopesOf } from './endpoint.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';
import type { EndpointPosition, EndpointsTable } from './endpoints-table.ts';

export interface WantedEndpoint {
  url: string;
  event_types?: readonly string[];
  description?: string | null;
}

interface EndpointChange extends Partial<WantedEndpoint> {
  enabled?: boolean;
}

/** Undefined: whatever the endpoint is by now. */
type Precondition = ((endpoint: Endpoint) => void) | undefined;

export type EndpointAdministration = ReturnType<typeof createEndpointAdministration>;

interface EndpointAdministrationOptions {
  endpoints: EndpointsTable;
  deliveries: DeliveriesTable;
  secrets: EndpointSecrets;
  addresses: Pick<CheckedAddresses, 'faultOf'>;
  wake(): void;
}

/**
 * Endpoints of other consumers do not exist for a consumer. Throws `Problem`: `not_found`,
 * `invalid_request`, `conflict`, `store_unavailable`, `secrets_unavailable`.
 */
export function createEndpointAdministration(options: EndpointAdministrationOptions) {
  const { endpoints, secrets } = options;
  const find = async ({ id: owner }: Consumer, id: string): Promise<Endpoint> =>
    (await atStore(() => endpoints.find(owner, id))) ?? notFound('webhook endpoint');
  return {
    find,
    list: (consumer: Consumer, after: EndpointPosition | undefined, limit: number) =>
      atStore(() => endpoints.list(consumer.id, after, limit)),
    create: (consumer: Caller, wanted: WantedEndpoint) => create(options, consumer, wanted),
    async change(consumer: Caller, id: string, change: EndpointChange, precondition: Precondition) {
      const seen = await find(consumer, id);
      precondition?.(seen);
      await applyChange(options, consumer, { id, version: precondition && seen.version }, change);
      return find(consumer, id);
    },
    async remove(consumer: Consumer, id: string, precondition: Precondition) {
      const seen = await find(consumer, id);
      precondition?.(seen);
      // Others with the same tag are refused from here on.
      if (precondition) await applyChange(options, consumer, seen, {});
      // First, so that none is left behind where this is interrupted.
      await atSecrets(() => secrets.remove(id));
      if (!(await atStore(() => endpoints.remove(consumer.id, id)))) notFound('webhook endpoint');
    },
    /** The secrets before it sign too, for this many hours. */
    async rotateSecret(consumer: Consumer, id: string, graceHours: number) {
      await find(consumer, id);
      const previousUntil = new Date(wallMs() + graceHours * 3_600_000);
      const secret = await orRotateAgain(async () => {
        const made = await atSecrets(() => secrets.renew(id, previousUntil));
        const note = () => endpoints.noteNewSecret(id);
        // Once more where a connection breaks: until it is noted, replicas sign with what they have read before.
        await atStore(() => note().catch(note));
        return made;
      });
      return { secret, previous_expires_at: previousUntil.toISOString() };
    },
    ...administerDeliveries(options, find),
  };
}

function administerDeliveries(
  { deliveries, wake }: EndpointAdministrationOptions,
  find: (consumer: Consumer, id: string) => Promise<Endpoint>,
) {
  async function checkEnabled(consumer: Consumer, id: string): Promise<Endpoint> {
    const endpoint = await find(consumer, id);
    if (endpoint.enabled) return endpoint;
    throw new Problem('conflict', 'The webhook endpoint is disabled; enable it first, then recover.');
  }
  return {
    async test(consumer: Consumer, id: string) {
      await checkEnabled(consumer, id);
      const eventId = await atStore(() => deliveries.addPing(id));
      wake();
      return eventId;
    },
    async deliveries(
      consumer: Consumer,
      id: string,
      filter: DeliveryFilter,
      before: string | undefined,
      limit: number,
    ) {
      await find(consumer, id);
      return atStore(() => deliveries.list(id, filter, before, limit));
    },
    /** Body as the consumer may read it now; null where that is nothing any more. */
    async bodyOf(consumer: Consumer, id: string, delivery: Pick<Delivery, 'id'>) {
      const visibility = eventVisibilityOf(withinScopesOf(await find(consumer, id), consumer));
      const message = await atStore(() => deliveries.message(delivery.id, id, visibility));
      return message === undefined ? null : bodyOf(shownTo(visibility, message)).toString();
    },
    async resend(consumer: Consumer, id: string, deliveryId: string) {
      await checkEnabled(consumer, id);
      const delivery = (await atStore(() => deliveries.resend(deliveryId, id))) ?? notFound('delivery');
      wake();
      return delivery;
    },
    async recover(consumer: Consumer, id: string, since: Date) {
      const endpoint = await checkEnabled(consumer, id);
      const visibility = eventVisibilityOf(withinScopesOf(endpoint, consumer));
      const recovered = await atStore(() => deliveries.recover(id, since, visibility));
      wake();
      return recovered;
    },
  };
}

async function create(
  { endpoints, secrets, addresses }: EndpointAdministrationOptions,
  consumer: Caller,
  { url, event_types = [], description = null }: WantedEndpoint,
): Promise<{ endpoint: Endpoint; secret: string }> {
  await check({ url, event_types }, addresses);
  const wanted = { url, event_types: unique(event_types), description };
  const endpoint = stored(await atStore(() => endpoints.add(consumer, wanted)));
  try {
    return { endpoint, secret: await atSecrets(() => secrets.renew(endpoint.id, new Date(wallMs()))) };
  } catch (error) {
    // Nobody could verify what it gets.
    await atStore(() => endpoints.remove(consumer.id, endpoint.id));
    throw error;
  }
}

async function applyChange(
  { endpoints, addresses }: EndpointAdministrationOptions,
  consumer: Caller,
  { id, version }: { id: string; version: string | undefined },
  { enabled, ...settings }: EndpointChange,
): Promise<void> {
  await check(settings, addresses);
  const { event_types } = settings;
  const wanted = { ...settings, ...(event_types && { event_types: unique(event_types) }) };
  const changed = await atStore(() => endpoints.change(consumer, id, wanted, version));
  if (changed === undefined && version !== undefined) throw hasChanged();
  stored(changed ?? notFound('webhook endpoint'));
  if (enabled === true) await atStore(() => endpoints.enable(id));
  if (enabled === false) await atStore(() => endpoints.disable(id, 'requested'));
}

async function check(
  { url, event_types = [] }: Partial<WantedEndpoint>,
  addresses: Pick<CheckedAddresses, 'faultOf'>,
): Promise<void> {
  const errors = event_types.flatMap((filter, at) =>
    isEventFilter(filter, eventTypes)
      ? []
      : [
          {
            pointer: `#/event_types/${at}`,
            message: "isn't an event type; use a type such as quote.created, or quote.* for all of a kind",
          },
        ],
  );
  const fault = url === undefined ? undefined : await addresses.faultOf(url);
  if (fault !== undefined) errors.unshift({ pointer: '#/url', message: fault });
  if (errors.length === 0) return;
  const texts = errors.map(({ pointer, message }) => `"${pointer.slice(2)}" ${message}`);
  throw new Problem('invalid_request', `The body isn't valid: ${texts.join('; ')}.`, { errors });
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

function stored(found: Endpoint | 'same url' | 'too many'): Endpoint {
  if (typeof found === 'object') return found;
  const tooMany = `You have ${maxEndpoints} webhook endpoints, the most a consumer can have; delete one first.`;
  const detail = found === 'too many' ? tooMany : 'You already have a webhook endpoint with this URL.';
  throw new Problem('conflict', detail);
}

function notFound(what: string): never {
  throw new Problem('not_found', `There's no ${what} with this id.`);
}

function atStore<T>(work: () => Promise<T>): Promise<T> {
  return orUnavailable(work, { keeps: 'keeps webhook endpoints' });
}

/** A secret that nobody was shown may be in force where this fails. */
async function orRotateAgain<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 503) throw error;
    const detail = `${error.message} It's unknown whether the secret was replaced; rotate it again.`;
    throw new Problem(error.code, detail, error.facts);
  }
}

async function atSecrets<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof SecretsUnavailable)) throw cause;
    const detail = "The secrets manager, which keeps webhook endpoints' secrets, isn't available.";
    throw new Problem('secrets_unavailable', detail, { retryAfter: 5, cause });
  }
}
