import { ApiError } from './api-error.ts';
import type { TriggerAction, TriggerDeclaration, TriggerEvent } from './declaration.ts';
import type { Row } from './schema.ts';

const STATEMENTS: Record<string, string> = { Insert: 'Insert', Update: 'Update', Delete: 'Delete' };

function capitalized(event: TriggerEvent): string {
  return event.charAt(0).toUpperCase() + event.slice(1);
}

function triggerError(message: string): ApiError {
  return new ApiError(400, 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', message, []);
}

/** `row 0` is an index into the list of the statement inside the trigger, not into the records of the call. */
function dmlException(event: TriggerEvent, row: Row, code: string, message: string): string {
  const statement = STATEMENTS[event.replace(/^(before|after)/, '')] ?? 'Update';
  return `System.DmlException: ${statement} failed. First exception on row 0 with id ${row.Id}; first error: ${code}, ${message}: []`;
}

/** The text of an unhandled exception of a trigger, with a stack trace. */
function exceptionError(trigger: TriggerDeclaration, event: TriggerEvent, cause: string): ApiError {
  const stackTrace = `Class.${trigger.name}Handler.run: line 10, column 1\nTrigger.${trigger.name}: line 3, column 1`;
  return triggerError(
    `${trigger.name}: execution of ${capitalized(event)}\n\ncaused by: ${cause}\n\n${stackTrace}`,
  );
}

function flowError(name: string, code: string, message: string): ApiError {
  const text = `We can't save this record because the “${name}” process failed. Give your Salesforce admin these details. This error occurred when the flow tried to update records: ${code}: ${message}. You can look up ExceptionCode values in the SOAP API Developer Guide. Error ID: 1064190376-681258 (954367962)`;
  return new ApiError(400, 'CANNOT_EXECUTE_FLOW_TRIGGER', text, []);
}

/** The error that an action causes for every record of its trigger call; undefined for an action that does not fail the call. */
export function callError(
  trigger: TriggerDeclaration,
  action: TriggerAction,
  event: TriggerEvent,
  row: Row,
): ApiError | undefined {
  switch (action.kind) {
    case 'throw': {
      const plain = action.exception ?? 'System.NullPointerException: Attempt to de-reference a null object';
      const { code, message = 'refused' } = action;
      return exceptionError(
        trigger,
        event,
        code === undefined ? plain : dmlException(event, row, code, message),
      );
    }
    case 'lock': {
      const message = `unable to obtain exclusive access to this record or 1 records: ${row.Id}`;
      return exceptionError(trigger, event, dmlException(event, row, 'UNABLE_TO_LOCK_ROW', message));
    }
    case 'limit': {
      const limit = action.limit ?? 'Too many SOQL queries: 101';
      return triggerError(
        `${trigger.name}: execution of ${capitalized(event)} caused by: System.LimitException: ${limit}`,
      );
    }
    case 'flowFault':
      return flowError(
        trigger.name,
        action.code ?? 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
        action.message ?? 'refused',
      );
    default:
      return undefined;
  }
}

/** The error of a validation rule, or of `addError`: the administrator's own text. */
export function ruleError(
  message: string,
  field: string | undefined,
  code = 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
): ApiError {
  return new ApiError(400, code, message, field === undefined ? [] : [field]);
}
