import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseSync, type TSType, type TSTypeAliasDeclaration, type TSTypeLiteral } from 'oxc-parser';

/** What an element may hold: text of some kind, one of some words, or a type of its own. */
export interface ElementType {
  /** A name in the typings, or one of `string`, `boolean`, `number`. */
  type: string;
  repeatable: boolean;
  optional: boolean;
}

/** A type of the Metadata API: a structure of elements, or a list of words. */
export type MetadataType =
  | { kind: 'structure'; elements: Map<string, ElementType> }
  | { kind: 'words'; words: Set<string> };

/** The types of the Metadata API by name. */
export type MetadataTypes = Map<string, MetadataType>;

let loaded: MetadataTypes | undefined;

/**
 * The Metadata API's types, read from the declarations in `@salesforce/types`, which are made from Salesforce's
 * own WSDL. The declarations have nothing at run time, so the file is parsed.
 */
export function loadMetadataTypes(): MetadataTypes {
  loaded ??= parseTypes(declarationsFile());
  return loaded;
}

function declarationsFile(): string {
  const here = createRequire(import.meta.url);
  return join(here.resolve('@salesforce/types/metadata'), '..', 'metadata.d.ts');
}

function parseTypes(file: string): MetadataTypes {
  const { program, errors } = parseSync(file, readFileSync(file, 'utf8'));
  if (errors.length > 0) throw new Error(`The Metadata API's type declarations can't be parsed: ${file}`);
  const aliases = new Map<string, TSType>();
  for (const statement of program.body) {
    if (statement.type !== 'ExportNamedDeclaration') continue;
    if (statement.declaration?.type !== 'TSTypeAliasDeclaration') continue;
    const alias: TSTypeAliasDeclaration = statement.declaration;
    aliases.set(alias.id.name, alias.typeAnnotation);
  }
  const types: MetadataTypes = new Map();
  for (const [name, type] of aliases) {
    const converted = convert(type, aliases);
    if (converted) types.set(name, converted);
  }
  return types;
}

function convert(type: TSType, aliases: Map<string, TSType>): MetadataType | undefined {
  if (type.type === 'TSUnionType' || type.type === 'TSLiteralType')
    return { kind: 'words', words: wordsOf(type) };
  const elements = elementsOf(type, aliases);
  return elements && { kind: 'structure', elements };
}

function wordsOf(type: TSType): Set<string> {
  const parts = type.type === 'TSUnionType' ? type.types : [type];
  return new Set(
    parts.flatMap((part) =>
      part.type === 'TSLiteralType' && 'value' in part.literal ? [String(part.literal.value)] : [],
    ),
  );
}

function elementsOf(type: TSType, aliases: Map<string, TSType>): Map<string, ElementType> | undefined {
  if (type.type === 'TSTypeLiteral') return membersOf(type);
  if (type.type === 'TSIntersectionType') {
    return new Map(type.types.flatMap((part) => [...(elementsOf(part, aliases) ?? [])]));
  }
  const base = referenceName(type);
  const target = base === undefined ? undefined : aliases.get(base);
  return target && elementsOf(target, aliases);
}

function membersOf(literal: TSTypeLiteral): Map<string, ElementType> {
  const elements = new Map<string, ElementType>();
  for (const member of literal.members) {
    if (member.type !== 'TSPropertySignature' || member.key.type !== 'Identifier') continue;
    const annotation = member.typeAnnotation?.typeAnnotation;
    if (!annotation) continue;
    const repeatable = annotation.type === 'TSArrayType';
    const type = textTypeName(annotation.type === 'TSArrayType' ? annotation.elementType : annotation);
    elements.set(member.key.name, { type, repeatable, optional: member.optional || repeatable });
  }
  return elements;
}

function textTypeName(type: TSType): string {
  if (type.type === 'TSBooleanKeyword') return 'boolean';
  if (type.type === 'TSNumberKeyword') return 'number';
  return referenceName(type) ?? 'string';
}

function referenceName(type: TSType): string | undefined {
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier') return undefined;
  return type.typeName.name;
}
