import type { Call } from '../base/call.ts';
import { Problem } from '../base/problem.ts';
import type { ConnectionState } from '../observability/health.ts';
import { booking } from '../resources/quotes-and-bookings.ts';
import type { FieldValues, Records, StoredRecord } from '../resources/records.ts';
import type { Connector, ConnectorPart, PartStatus } from './connector.ts';

/** The booking that a unified resource has in the CRM, as it is to be; `status` is one of a connector's. */
export type BookingOrder = FieldValues & { status: PartStatus };

export interface BookingPart extends ConnectorPart {
  /** Whatever the CRM says. */
  crmStatus: string | null;
}

export interface CrmConnector extends Connector<BookingOrder, BookingPart> {
  /**
   * Writes how the booking stands. Where somebody has deleted it, it is made again, unless `ifGone` says to leave it
   * so. Any number of repeats comes to the same. Throws `Problem`.
   */
  write(
    reference: string,
    order: BookingOrder,
    options: { ifGone: 'make' | 'leave' },
    call: Call,
  ): Promise<void>;
}

export interface CrmConnectorOptions {
  records: Records;
  checkHealth: () => Promise<ConnectionState>;
}

/**
 * A booking of the CRM as a connector's part: the token is its External ID and its reference, so that any number of
 * attempts makes one.
 */
export function createCrmConnector({ records, checkHealth }: CrmConnectorOptions): CrmConnector {
  const make = async (token: string, order: BookingOrder, call: Call) =>
    void (await records.create(booking, token, order, call));
  return {
    name: 'crm',
    async create(order, { token }, call) {
      await make(token, order, call);
      return { reference: token, status: order.status, crmStatus: order.status };
    },
    async retrieve(reference, _order, call) {
      const record = await records.find(booking, reference, call);
      return record && toPart(reference, record);
    },
    async write(reference, order, { ifGone }, call) {
      const record = await records.find(booking, reference, call);
      if (!record) {
        if (ifGone === 'make') await make(reference, order, call);
        return;
      }
      const { status, details = null } = order;
      await records.update(booking, record, { status, details }, call);
    },
    async cancel(reference, call) {
      const record = await records.find(booking, reference, call);
      if (!record) return;
      await records.remove(booking, record, call).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    },
    checkHealth,
  };
}

/** People may give a booking a status of their own: it is there, and that is what counts. */
function toPart(reference: string, { values }: StoredRecord): BookingPart {
  const crmStatus = values['status'] ?? null;
  const known: PartStatus[] = ['pending', 'confirmed', 'cancelled', 'failed'];
  return { reference, status: known.find((status) => status === crmStatus) ?? 'confirmed', crmStatus };
}

function isGone(error: unknown): boolean {
  return error instanceof Problem && error.code === 'not_found';
}
