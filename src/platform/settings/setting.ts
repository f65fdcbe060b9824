import { type Static, type TSchema, Type } from 'typebox';

export interface Setting<
  S extends TSchema = TSchema,
  D = string | number | boolean | readonly string[] | readonly object[] | undefined,
> {
  env: string;
  schema: S;
  /** Value when nothing is set, or how it follows from settings above it; undefined: there is none. */
  fallback: D | ((earlier: Earlier) => D);
  doc: string;
  normalize?: (value: Static<S>) => Static<S>;
  /** The value may hold a password: never printed. */
  secret?: true;
  /** Read only with this secrets manager: elsewhere the variable belongs to other programs. */
  onlyWith?: 'vault' | 'aws';
}

export interface Earlier {
  production: boolean;
  host: string;
  dataDir: string;
  environment: string;
  'crm.loginUrl': string | undefined;
  [key: string]: unknown;
}

type Rest<S extends TSchema> = Pick<Setting<S>, 'normalize' | 'secret' | 'onlyWith'>;

export function setting<S extends TSchema, D extends Static<S> | undefined>(
  env: string,
  schema: S,
  fallback: D | ((earlier: Earlier) => D),
  doc: string,
  rest: Rest<S> = {},
): Setting<S, D> {
  return { env, schema, fallback, doc, ...rest };
}

export const text = Type.String({ minLength: 1, maxLength: 2048, description: 'a non-empty text' });
export const like = (pattern: string, description: string, maxLength = 2048) =>
  Type.String({ pattern, maxLength, description });
export const httpUrl = like('^https?://[^\\s/?#]+[^\\s?#]*$', 'an http:// or https:// URL without a query');
export const secretName = like(
  '^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$',
  'a name of letters, digits, dots, dashes and underscores, with slashes between its parts',
  200,
);
export const port = Type.Integer({ minimum: 0, maximum: 65_535 });
export const hours = Type.Number({ minimum: 0, maximum: 876_000 });
export const days = Type.Number({ minimum: 1, maximum: 3650 });
export const seconds = (minimum: number, maximum: number) => Type.Number({ minimum, maximum });
export const oneOf = <T extends string[]>(...values: [...T]) => Type.Enum(values);
export const withoutLastSlash = (url: string) => url.replace(/\/+$/, '');
