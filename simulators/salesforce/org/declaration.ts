/** Automation that administrators and packages have added to an object, as JSON. */
export interface AutomationDeclaration {
  triggers: TriggerDeclaration[];
  validationRules: ValidationRule[];
  requiredFields: RequiredFields[];
}

export const TRIGGER_EVENTS = [
  'beforeInsert',
  'afterInsert',
  'beforeUpdate',
  'afterUpdate',
  'beforeDelete',
  'afterDelete',
] as const;

export type TriggerEvent = (typeof TRIGGER_EVENTS)[number];

/** All given parts must hold. */
export interface Condition {
  /** The field that `equals`, `contains`, `matches`, `above` and `below` look at. */
  field?: string;
  /** null: the field is empty. */
  equals?: string | number | boolean | null;
  contains?: string;
  /** A regular expression. */
  matches?: string;
  /** The number, or the text of a date, is higher or lower than this. */
  above?: string | number;
  below?: string | number;
  /** The developer name of the record's type. */
  recordType?: string;
  /** More records in the trigger call than this. */
  rowsAbove?: number;
  /** Fewer records in the trigger call than this. */
  rowsBelow?: number;
}

/** An Apex trigger or a flow. */
export interface TriggerDeclaration {
  name: string;
  object: string;
  on: TriggerEvent[];
  /** All of them; always, when absent. */
  when?: Condition | Condition[];
  action: TriggerAction;
  /** How many calls it acts in; without end when absent. */
  times?: number;
  /** Acts in the first pass of an operation only, as a guard in a static variable makes it. */
  runOnce?: boolean;
}

export type TriggerAction =
  /** An unhandled exception; with `code` the DmlException of a statement inside the trigger. */
  | { kind: 'throw'; exception?: string; code?: string; message?: string }
  /** An error on each record for which the condition holds. */
  | { kind: 'addError'; message: string; field?: string; code?: string }
  /** A statement inside the trigger finds a record locked. */
  | { kind: 'lock' }
  /** A governor limit of the transaction, which no code can catch. */
  | { kind: 'limit'; limit?: string }
  /** A flow fails on a statement of its own. */
  | { kind: 'flowFault'; code?: string; message?: string }
  | { kind: 'delay'; ms: number }
  /** A before-trigger gives the record these values. */
  | { kind: 'set'; values: Record<string, unknown> };

export interface ValidationRule {
  name: string;
  object: string;
  /** When it holds, or all of them do, the record is refused. */
  when: Condition | Condition[];
  message: string;
  /** Where the message is shown; at the top of the page when absent. */
  field?: string;
}

/** Fields that an object requires beyond its own definition; one that the package does not declare is never set. */
export interface RequiredFields {
  name: string;
  object: string;
  fields: string[];
}
