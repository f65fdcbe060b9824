import { ApiError, invalidField } from '../org/api-error.ts';

export function malformedQuery(message: string): ApiError {
  return new ApiError(400, 'MALFORMED_QUERY', message);
}

/** INVALID_FIELD with the position, as an org shows it: text around the name, row and column, then the message. */
export function fieldError(soql: string, name: string, message: string): ApiError {
  const column = soql.indexOf(name) + 1;
  const around = soql.slice(Math.max(0, column - 21), column + 60);
  return invalidField(`\n${around}\n^\nERROR at Row:1:Column:${column}\n${message}`);
}

export function unknownColumn(soql: string, name: string, entity: string): ApiError {
  return fieldError(
    soql,
    name,
    `No such column '${name}' on entity '${entity}'. If you are attempting to use a custom field, be sure to append the '__c' after the custom field name. Please reference your WSDL or the describe call for the appropriate names.`,
  );
}
