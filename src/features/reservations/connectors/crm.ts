import type { Call } from '../../../platform/base/call.ts';
import { Problem, withSecondLook } from '../../../platform/base/problem.ts';
import type { ConnectionState } from '../../../platform/observability/health.ts';
import { type HandedOff, valuesFrom } from '../../../records/field-values.ts';
import type { MayExist, Records, StoredRecord } from '../../../records/records.ts';
import type { Resource } from '../../../records/resource.ts';
import type { BookingOrder, BookingPart, CrmConnector, PartStatus } from './connector.ts';

export interface CrmConnectorOptions {
  records: Records;
  booking: Resource;
  checkHealth: () => Promise<ConnectionState>;
}

/**
 * A booking of the CRM as a connector's part: the token is its External ID and its reference, so that any number of
 * attempts makes one.
 */
export function createCrmConnector({ records, booking, checkHealth }: CrmConnectorOptions): CrmConnector {
  const make = async (token: string, order: BookingOrder, options: MayExist, call: Call) => {
    // The mapping takes values from it as from a hand-off.
    const further = await withSecondLook(call, () => valuesFrom(booking, handedOff(order)));
    await records.create(booking, token, { ...order, ...further }, call, {
      ...options,
      ofService: ['source'],
    });
  };
  return {
    name: 'crm',
    async create(order, { token, repeated: mayExist }, call) {
      await make(token, order, { mayExist }, call);
      return { reference: token, status: order.status, crmStatus: order.status };
    },
    async retrieve(reference, _order, call) {
      const record = await records.find(booking, reference, call);
      return record && toPart(reference, record);
    },
    async write(reference, order, { ifGone }, call) {
      const record = await records.find(booking, reference, call);
      if (!record) {
        if (ifGone === 'make') await make(reference, order, {}, call);
        return;
      }
      const { status, details } = order;
      await records.update(booking, record, { status, ...(details !== undefined && { details }) }, call);
    },
    async cancel(reference, _order, call) {
      const record = await records.find(booking, reference, call);
      if (!record) return;
      await records.remove(booking, record, call).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    },
    checkHealth,
  };
}

function handedOff(order: BookingOrder): HandedOff {
  const { trip_id, member_id, name, source, details } = order;
  const given = {
    trip_id: trip_id ?? '',
    member_id: member_id ?? '',
    name: name ?? '',
    source: source ?? '',
  };
  return { ...given, type: 'booking', details: details ?? '{}' };
}

/** Users of the CRM may give a booking a status of their own: a booking that exists counts as confirmed. */
function toPart(reference: string, { values }: StoredRecord): BookingPart {
  const crmStatus = values['status'] ?? null;
  const known: PartStatus[] = ['pending', 'confirmed', 'cancelled', 'failed'];
  return { reference, status: known.find((status) => status === crmStatus) ?? 'confirmed', crmStatus };
}

function isGone(error: unknown): boolean {
  return error instanceof Problem && error.code === 'not_found';
}
