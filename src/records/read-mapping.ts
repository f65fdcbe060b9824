import { readFileSync, statSync } from 'node:fs';
import { type Resources, resourcesOf } from './mapping.ts';
import { maxMappingBytes, parseMapping } from './mapping-file.ts';
import type { OwnerRule } from './resource.ts';

export class MappingError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.faults = faults;
  }
}

/** Without a file: the declarations of the package and `ownerMatch`. Throws `MappingError`. */
export function readResources(file: string | undefined, ownerMatch?: OwnerRule['match']): Resources {
  if (file === undefined) return resourcesOf(undefined, ownerMatch);
  const parsed = parseMapping(readMapping(file));
  if ('mapping' in parsed) return resourcesOf(parsed.mapping);
  throw new MappingError(
    parsed.faults.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`),
  );
}

function readMapping(file: string): string {
  try {
    // Not read before its size is known: it may be any file.
    const { size } = statSync(file);
    if (size <= maxMappingBytes) return readFileSync(file, 'utf8');
  } catch (error) {
    throw new MappingError([
      `crm.mappingFile (CRM_MAPPING_FILE): can't be read: ${(error as Error).message}`,
    ]);
  }
  throw new MappingError([`crm.mappingFile (CRM_MAPPING_FILE): has more than ${maxMappingBytes} bytes`]);
}
