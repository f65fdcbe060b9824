import { isUuid } from '../../base/uuid.ts';

/** Text that the CRM and the database can both hold: well-formed Unicode without the NUL character. */
function isText(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0');
}

/** Formats that schemas of requests may name, beyond those of JSON Schema; `uuid` replaces the laxer usual one. */
export const formats = { uuid: isUuid, text: isText };
