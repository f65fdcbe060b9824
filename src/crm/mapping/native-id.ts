import { CrmFailure } from '../rest/failure.ts';

/** An identifier of the CRM's own, of 15 or 18 letters and digits. Throws `CrmFailure` (broken) for anything else. */
export function nativeIdOf(value: unknown, written: boolean): string {
  if (typeof value === 'string' && /^[A-Za-z0-9]{15,18}$/.test(value)) return value;
  throw new CrmFailure('broken', 'an answer has no usable id', { status: 200, outcomeUnknown: written });
}
