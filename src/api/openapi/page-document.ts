import { type Operation, type Parameter, shellSample } from './code-samples.ts';
import type { JsonObject } from './schemas.ts';

interface Document extends JsonObject {
  paths: Record<string, Record<string, Operation>>;
  components: { parameters: Record<string, Parameter> };
}

export function exampleKey(document: object): unknown {
  return (document as Document).components.parameters['Idempotency-Key']?.example;
}

/**
 * The OpenAPI document as the readable page shows it: with a command for each operation, and with everything that is not
 * required switched off where a request is made up from the examples.
 */
export function pageDocument(document: object): JsonObject {
  const { paths, components, ...rest } = document as Document;
  const parameters = mapValues(components.parameters, withoutExampleUnlessRequired);
  const show = (method: string, path: string, operation: Operation): JsonObject => ({
    ...operation,
    parameters: operation.parameters.map(withoutExampleUnlessRequired),
    'x-codeSamples':
      operation['x-codeSamples'] ?? shellSample(method, path, operation, components.parameters),
  });
  return {
    ...rest,
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, operations]) => [
        path,
        mapValues(operations, (operation, method) => show(method.toUpperCase(), path, operation)),
      ]),
    ),
    components: { ...components, parameters },
  };
}

function mapValues<T, R>(
  record: Record<string, T>,
  change: (value: T, name: string) => R,
): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}

function withoutExampleUnlessRequired({ example, ...parameter }: Parameter): object {
  if (example === undefined) return parameter;
  return parameter.required
    ? { ...parameter, example }
    : { ...parameter, examples: { example: { value: example, 'x-disabled': true } } };
}
