import { ProtocolError } from '../protocol/protocol-error.ts';

/** When tables are to be had: every day from 12:00 to 23:00 UTC, each 30 minutes, the last start included. */
const FIRST_START_MINUTE = 12 * 60;
const LAST_START_MINUTE = 23 * 60;
const GRID_MINUTES = 30;
const LONGEST_SEC = 8 * 3600;

export const merchant = {
  id: 'casa-olivo-7',
  services: ['table'],
  description: {
    merchant_id: 'casa-olivo-7',
    name: 'Casa Olivo',
    time_zone: 'Europe/Madrid',
    services: [{ service_id: 'table', name: 'Table' }],
  },
} as const;

/** A table for so many guests and so long. */
export interface Slot {
  merchantId: string;
  serviceId: string;
  /** UTC epoch seconds. */
  startSec: number;
  durationSec: number;
  partySize: number;
}

/** @throws ProtocolError 400 for what the partner never offers: an unknown merchant or service, a slot off the grid. */
export function checkSlot(slot: Slot): void {
  if (slot.merchantId !== merchant.id) throw new ProtocolError(400, 'unknown merchant_id');
  if (!merchant.services.some((id) => id === slot.serviceId))
    throw new ProtocolError(400, 'unknown service_id');
  const minute = (slot.startSec % 86_400) / 60;
  const isOnGrid = minute % GRID_MINUTES === 0 && minute >= FIRST_START_MINUTE && minute <= LAST_START_MINUTE;
  if (!isOnGrid) throw new ProtocolError(400, 'no slot starts at start_sec');
  if (!(slot.durationSec > 0 && slot.durationSec <= LONGEST_SEC)) {
    throw new ProtocolError(400, 'duration_sec is out of range');
  }
  if (slot.partySize < 1) throw new ProtocolError(400, 'party_size must be at least 1');
}

export function overlaps(a: Slot, b: Slot): boolean {
  return a.startSec < b.startSec + b.durationSec && b.startSec < a.startSec + a.durationSec;
}
