import { parse } from 'node:querystring';

const wholeNumber = /^(0|[1-9]\d{0,8})$/;
/** Query parameters that are numbers; a text that is no plain whole number stays one, and fails its schema. */
const numbers = ['limit'];

/** Parses a query string: repeated parameters become lists, which no schema accepts. */
export function parseQuery(text: string): Record<string, unknown> {
  const query: Record<string, unknown> = parse(text, '&', '=', { maxKeys: 50 });
  for (const name of numbers) {
    const value = query[name];
    if (typeof value === 'string' && wholeNumber.test(value)) query[name] = Number(value);
  }
  return query;
}
