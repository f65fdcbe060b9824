import type { Route } from '../route.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    readOnlyFields?: readonly string[];
  }
}

export function readOnlyFields({ request, answers }: Route): readonly string[] {
  const taken = propertiesOf(request.body);
  const shown = Object.values(answers).flatMap(({ schema }) => Object.keys(propertiesOf(schema)));
  return shown.filter((name) => !Object.hasOwn(taken, name));
}

function propertiesOf(schema: object | undefined): object {
  return schema !== undefined && 'properties' in schema ? (schema.properties as object) : {};
}
