import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { XMLValidator } from 'fast-xml-parser';
import type { Finding } from './finding.ts';
import { listXmlFiles, parseXml } from './package-files.ts';

// Control characters other than tab, line feed and carriage return, most of which XML 1.0 forbids.
const CONTROL_CHARACTER = /[^\P{Cc}\t\n\r]/u;
const ENTITY = /&([^;\s]*);/g;
const KNOWN_ENTITY = /^(amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+)$/;

/**
 * Every XML file of the package is well-formed XML 1.0 in UTF-8, with one root element.
 * The Salesforce tools read malformed files without complaint, and only the org refuses them.
 */
export function checkWellFormed(directory: string): Finding[] {
  return listXmlFiles(directory).flatMap((file) => {
    const message = findFault(readFileSync(join(directory, file)));
    return message === undefined ? [] : [{ check: 'well-formed' as const, file, message }];
  });
}

function findFault(bytes: Buffer): string | undefined {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return 'The file is not UTF-8.';
  }
  const valid = XMLValidator.validate(text);
  if (valid !== true) return `Line ${valid.err.line}: ${valid.err.msg}`;
  return findFaultTheValidatorAccepts(text);
}

function findFaultTheValidatorAccepts(text: string): string | undefined {
  if (text.includes('<!DOCTYPE')) return 'A document type declaration is not allowed in metadata.';
  if (CONTROL_CHARACTER.test(text)) return 'The file has a control character.';
  for (const [entity, name = ''] of text.matchAll(ENTITY)) {
    if (!KNOWN_ENTITY.test(name)) return `The entity ${entity} is not defined.`;
  }
  const roots = Object.values(parseXml(text)).flat();
  if (roots.length !== 1) return `The file has ${roots.length} root elements or text beside the root.`;
  return undefined;
}
