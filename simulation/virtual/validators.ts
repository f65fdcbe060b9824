import { createRequire } from 'node:module';

/*
 * Each replica compiles the schemas of all routes when it starts, which takes half of its start. They are the same for all: here
 * they are compiled once. To be imported before a replica starts.
 */

type Compile = (part: { schema: object; httpPart: string }) => unknown;
type Build = (externalSchemas: object, options: { customOptions: object }) => Compile;

const requireOfFastify = createRequire(createRequire(import.meta.url).resolve('fastify'));
const path = requireOfFastify.resolve('@fastify/ajv-compiler');
const createBuild = requireOfFastify(path) as () => Build;

const compiled = new Map<string, unknown>();

function createBuildOnce(): Build {
  const build = createBuild();
  return (externalSchemas, options) => {
    const compile = build(externalSchemas, options);
    const around = JSON.stringify([externalSchemas, options.customOptions]);
    return (part) => {
      const key = around + JSON.stringify([part.httpPart, part.schema]);
      const known = compiled.get(key) ?? compile(part);
      compiled.set(key, known);
      return known;
    };
  };
}

Object.assign(requireOfFastify.cache[path] ?? {}, { exports: createBuildOnce });
