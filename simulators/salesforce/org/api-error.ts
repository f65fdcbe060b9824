import { type Language, translate } from './translate.ts';

/**
 * A refusal as Salesforce words it. On a single call it becomes `[{message, errorCode, fields?}]` with `status`,
 * inside a collections answer the same code stands under `statusCode` (REST API Developer Guide, Status Codes and
 * Error Responses).
 */
export class ApiError extends Error {
  readonly status: number;
  readonly errorCode: string;
  readonly fields: string[] | undefined;
  /** Extra response headers, such as `Allow` on a 405. */
  readonly headers: Record<string, string>;
  /** Further errors of the same record. */
  readonly others: readonly ApiError[];
  /** Further members of the body of a single call's answer. */
  readonly details: object;

  constructor(
    status: number,
    errorCode: string,
    message: string,
    fields?: string[],
    headers: Record<string, string> = {},
    others: readonly ApiError[] = [],
    details: object = {},
  ) {
    super(message);
    this.status = status;
    this.errorCode = errorCode;
    this.fields = fields;
    this.headers = headers;
    this.others = others;
    this.details = details;
  }

  /** The body of a single call's answer. */
  toBody(language: Language): object[] {
    return [this, ...this.others].map(({ message, errorCode, fields, details }) => ({
      ...details,
      message: translate(message, language),
      errorCode,
      ...(fields === undefined ? {} : { fields }),
    }));
  }

  /** The same as `errors` of an item of a collections answer: another key, the same codes. */
  toItemErrors(language: Language): { statusCode: string; message: string; fields: string[] }[] {
    return [this, ...this.others].map(({ message, errorCode, fields = [] }) => ({
      statusCode: errorCode,
      message: translate(message, language),
      fields,
    }));
  }
}

/** The errors of one record as one; undefined without any. */
export function joinErrors([first, ...others]: readonly ApiError[]): ApiError | undefined {
  if (first === undefined || others.length === 0) return first;
  return new ApiError(
    first.status,
    first.errorCode,
    first.message,
    first.fields,
    first.headers,
    others,
    first.details,
  );
}

/** 404 as the error page words it; also the answer for a misspelt object in a path. */
export function notFound(message = 'The requested resource does not exist'): ApiError {
  return new ApiError(404, 'NOT_FOUND', message);
}

/** 400 for a body or value that does not parse or has another type than the field. */
export function jsonParserError(message: string): ApiError {
  return new ApiError(400, 'JSON_PARSER_ERROR', message);
}

/** 400 for a field or relationship that is not there or can't be used that way. */
export function invalidField(message: string, fields?: string[]): ApiError {
  return new ApiError(400, 'INVALID_FIELD', message, fields);
}
