import type { Finding } from './finding.ts';
import { type ElementType, loadMetadataTypes, type MetadataTypes } from './metadata-types.ts';
import { listXmlFiles, readDocuments, type XmlNode } from './package-files.ts';

const NAMESPACE = 'http://soap.sforce.com/2006/04/metadata';

/**
 * Every element of every XML file is one that the Metadata API has at that position, not repeated where it may stand
 * once, with a value of its type, and no required one is missing. The Salesforce tools check none of this offline.
 */
export function checkElements(directory: string): Finding[] {
  const types = loadMetadataTypes();
  return readDocuments(directory, listXmlFiles(directory)).flatMap(({ file, rootName, root }) =>
    checkRoot(rootName, root, types).map((message) => ({ check: 'elements' as const, file, message })),
  );
}

function checkRoot(name: string, root: XmlNode, types: MetadataTypes): string[] {
  if (types.get(name)?.kind !== 'structure') return [`<${name}> is not a type of the Metadata API.`];
  if (typeof root === 'string' || root['@xmlns'] !== NAMESPACE) {
    return [`<${name}> needs xmlns="${NAMESPACE}".`];
  }
  // What an org hands out may declare further namespaces here, such as xsi.
  const content = Object.fromEntries(Object.entries(root).filter(([key]) => !key.startsWith('@xmlns')));
  return checkValue(content, { type: name, repeatable: false, optional: false }, name, types);
}

function checkValue(value: XmlNode, expected: ElementType, path: string, types: MetadataTypes): string[] {
  const type = types.get(expected.type);
  if (type?.kind === 'structure') return checkStructure(value, type.elements, path, types);
  if (typeof value !== 'string') return [`${path} holds text, not elements or attributes.`];
  if (type?.kind === 'words' && !type.words.has(value)) {
    return [`${path}: "${value}" is not a value of ${expected.type}.`];
  }
  const pattern = scalarPatterns[expected.type];
  return pattern && !pattern.test(value) ? [`${path}: "${value}" is no ${expected.type}.`] : [];
}

const scalarPatterns: Record<string, RegExp> = { boolean: /^(true|false)$/, number: /^-?\d+(\.\d+)?$/ };

function checkStructure(
  value: XmlNode,
  elements: Map<string, ElementType>,
  path: string,
  types: MetadataTypes,
): string[] {
  // An element without content parses as empty text.
  const content = value === '' ? {} : value;
  if (typeof content === 'string') return [`${path} holds elements, not text.`];
  const missing = [...elements].flatMap(([name, element]) =>
    element.optional || name in content ? [] : [`${path} lacks <${name}>.`],
  );
  const wrong = Object.entries(content).flatMap(([name, child]) => {
    const expected = elements.get(name);
    if (!expected) return [`${path} has no element <${name}>.`];
    const values = Array.isArray(child) ? child : [child];
    if (values.length > 1 && !expected.repeatable) return [`${path} has <${name}> more than once.`];
    return values.flatMap((each) => checkValue(each, expected, `${path}.${name}`, types));
  });
  return [...missing, ...wrong];
}
