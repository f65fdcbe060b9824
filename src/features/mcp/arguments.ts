import type { Route } from '../../api/route.ts';
import { fieldTexts, isObject, replaceFields } from '../../platform/base/json-text.ts';
import { Problem } from '../../platform/base/problem.ts';

export interface Arguments {
  given: Record<string, unknown>;
  text: string;
}

/** Levels at which `details` stand: of the arguments, of a result, of a result of an item. */
const levelsOfDetails = 4;

export function otherNames({ request }: Pick<Route, 'request'>): ReadonlyMap<string, string> {
  const { properties = {} } = (request.params ?? {}) as { properties?: object };
  const names = Object.keys(properties).map((name): [string, string] => [name, nameInResults(name)]);
  return new Map(names.filter(([name, other]) => name !== other));
}

function nameInResults(name: string): string {
  if (name === 'id') return 'external_id';
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The arguments by the names of the route. Throws `invalid_request` where both names are there and differ. */
export function withRouteNames(route: Route, { given, text }: Arguments): Arguments {
  const used = [...otherNames(route)].filter(([, other]) => Object.hasOwn(given, other));
  if (used.length === 0) return { given, text };
  for (const [name, other] of used) {
    if (!Object.hasOwn(given, name) || given[name] === given[other]) continue;
    const message = `must be the same as ${name}, or left out`;
    throw new Problem('invalid_request', `The argument ${other} ${message}.`, {
      errors: [{ pointer: `#/${other}`, message }],
    });
  }
  const names = new Map(used.map(([name, other]) => [other, name]));
  const texts = [...fieldTexts(text)].filter(([name]) => !used.some(([own]) => own === name));
  return {
    given: Object.fromEntries(Object.entries(given).map(([name, value]) => [names.get(name) ?? name, value])),
    text: `{${texts.map(([name, value]) => `${JSON.stringify(names.get(name) ?? name)}:${value}`).join(',')}}`,
  };
}

export function withDetailsAsObjects({ request }: Pick<Route, 'request'>, text: string): string {
  if (!JSON.stringify(request.body ?? {}).includes('"details":')) return text;
  return replaceFields(text, 'details', (value) => objectIn(value) ?? value, levelsOfDetails);
}

function objectIn(value: string): string | undefined {
  if (!value.startsWith('"')) return undefined;
  try {
    const text = JSON.parse(value) as string;
    return isObject(JSON.parse(text)) ? text : undefined;
  } catch {
    return undefined;
  }
}
