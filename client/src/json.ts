import { makeUuid } from './uuid.ts';

/** A JSON value whose numbers keep all their digits. */
export type JsonValue = string | number | bigint | boolean | null | JsonNumber | JsonValue[] | JsonObject;

export interface JsonObject {
  [name: string]: JsonValue;
}

/** A number as it stands in JSON, for those that a JavaScript number would change: `new JsonNumber('12345678901234567890')`. */
export class JsonNumber {
  /** The digits as they are sent. */
  readonly text: string;

  constructor(text: string) {
    if (!wholeNumberText.test(text)) throw new TypeError(`not a number in JSON: ${text.slice(0, 50)}`);
    this.text = text;
  }

  /** The nearest JavaScript number, so that it can be compared and added. */
  valueOf(): number {
    return Number(this.text);
  }

  toString(): string {
    return this.text;
  }

  /** For `JSON.stringify`: all digits where the engine can keep them (Node 22 and newer), else the nearest number. */
  toJSON(): unknown {
    const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };
    return rawJSON ? rawJSON(this.text) : this.valueOf();
  }
}

const wholeNumberText = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** A number that may be more than a JavaScript number holds; some texts match it too. */
const longNumber = /(?:^|[:,[])\s*-?(?:[\d.]{15}|[\d.]+[eE])/;
/** What distinguishes texts from numbers: escaped characters, quotation marks, and numbers. */
const tokens = /\\.|"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Like JSON.parse; a number that JavaScript would change becomes a JsonNumber. */
export function parseJson(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text);
  const mark = makeUuid();
  let isInText = false;
  const marked = text.replaceAll(tokens, (token) => {
    if (token === '"') isInText = !isInText;
    return isInText || token === '"' || survives(token) ? token : `"${mark}${token}"`;
  });
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? new JsonNumber(value.slice(mark.length)) : value,
  );
}

/** Like JSON.stringify; the digits of a JsonNumber and of a bigint are kept, and what is no number in JSON is refused. */
export function writeJson(value: unknown): string {
  const mark = makeUuid();
  const text = JSON.stringify(value, function (this: Record<string, unknown>, name, part: unknown) {
    // What toJSON of a JsonNumber made is passed over.
    const original = this[name];
    if (original instanceof JsonNumber) return mark + original.text;
    if (typeof part === 'bigint') return `${mark}${part}`;
    if (typeof part === 'number' && !Number.isFinite(part)) {
      throw new TypeError(`${name} is ${part}, which JSON cannot hold`);
    }
    return part;
  });
  return text.replaceAll(new RegExp(`"${mark}([^"]+)"`, 'g'), '$1');
}

/** Whether the nearest JavaScript number is written as the same value. */
function survives(text: string): boolean {
  if (text.length < 16 && !/[eE]/.test(text)) return true;
  return normal(text) === normal(String(Number(text)));
}

/** A number's significant digits and the power of ten of the last one: the same for `1.50`, `1.5` and `15e-1`. */
function normal(text: string): string {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (!parts) return text;
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}
