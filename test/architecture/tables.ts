import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Argument, type Expression, parseSync, type TemplateLiteral, Visitor } from 'oxc-parser';
import { tablesIn } from './sql-tables.ts';
import { tableOwners } from './table-owners.ts';

/** Methods whose texts are SQL, whatever they look like. */
const takesSql = new Set(['raw', 'execute', 'query', 'exec']);
/** Methods of Kysely that take tables, perhaps with `as` and another name, or a table's column. */
const takesTables = new Set([
  ...['selectFrom', 'insertInto', 'updateTable', 'deleteFrom', 'mergeInto', 'replaceInto', 'table', 'using'],
  ...['innerJoin', 'leftJoin', 'rightJoin', 'fullJoin', 'crossJoin', 'ref'],
]);
/** Other texts are SQL where they look like a statement, not like prose. */
const statement =
  /\bselect\b[^]*\bfrom\b|\b(?:insert into|delete from|truncate|(?:create|alter|drop|lock) table)\b|\bupdate\b[^]*\bset\b/i;

/** What breaks the rule that a table is its owner's alone, one sentence each. */
export function findTableViolations(root: string): string[] {
  const unowned = tablesOf(root).filter((table) => !(table in tableOwners));
  const files = globSync('src/**/*.ts', { cwd: root }).sort();
  return [
    ...unowned.map((table) => `the table ${table} has no owner`),
    ...files.flatMap((file) => {
      const code = readFileSync(join(root, file), 'utf8');
      if (!mayUseOthers(file, code)) return [];
      const used = tablesUsedIn(file, code);
      return [...used].sort().flatMap((table) => {
        const owner = Object.hasOwn(tableOwners, table) ? tableOwners[table] : undefined;
        if (owner === undefined || file.startsWith(`${owner}/`)) return [];
        return [`${file} may not use the table ${table} of ${owner}`];
      });
    }),
  ];
}

/** Whether a table of another owner may be named; most files hold no such word, and need no syntax tree. */
function mayUseOthers(file: string, code: string): boolean {
  const text = code.toLowerCase();
  const isNamed = Object.entries(tableOwners).some(
    ([table, owner]) => text.includes(table) && !file.startsWith(`${owner}/`),
  );
  return isNamed || /\\[xu]/.test(code);
}

/** The tables that there are once all migrations are applied, and that of the migrations themselves. */
export function tablesOf(root: string): string[] {
  const folder = 'src/platform/store';
  const files = globSync([`${folder}/migrate.ts`, `${folder}/migrations/*.sql`], { cwd: root }).sort();
  const tables = new Set<string>();
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8').replaceAll(/--.*/g, '');
    const changes =
      /\b(create|drop)\s+table\s+(?:if\s+(?:not\s+)?exists\s+)?"?(\w+)|\balter\s+table\s+"?(\w+)"?\s+rename\s+to\s+"?(\w+)/gi;
    for (const [, verb, name = '', before = '', after] of text.matchAll(changes)) {
      if (verb?.toLowerCase() === 'create') tables.add(name);
      else tables.delete(verb === undefined ? before : name);
      if (after !== undefined) tables.add(after);
    }
  }
  return [...tables].sort();
}

/**
 * The names in the SQL of a file, among them those of tables. A text that is a name alone counts too, since what it is
 * given to may put it into a statement: `leasesOf({ table: 'handoffs' })`.
 */
function tablesUsedIn(file: string, code: string): Set<string> {
  const { program, errors } = parseSync(file, code);
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  const found = new Set<string>();
  const addFrom = (text: string) => {
    for (const table of tablesIn(text)) found.add(table);
  };
  // A fragment may be what follows `from` in a statement: `handoffs h`.
  const addFromFragment = (text: string) => addFrom(`from ${text}`);
  const addFromText = (text: string) => {
    if (statement.test(text)) addFrom(text);
    else found.add(text);
  };
  new Visitor({
    TaggedTemplateExpression: ({ tag, quasi }) => {
      if (tag.type === 'Identifier' && tag.name === 'sql') addFromFragment(textOf(quasi));
    },
    TemplateLiteral: (template) => addFromText(textOf(template)),
    Literal: ({ value }) => {
      if (typeof value === 'string') addFromText(value);
    },
    CallExpression: ({ callee, arguments: given }) => {
      const method = methodOf(callee);
      if (takesSql.has(method) || takesTables.has(method)) given.flatMap(textsOf).forEach(addFromFragment);
    },
  }).visit(program);
  return found;
}

function methodOf(callee: Expression): string {
  if (callee.type !== 'MemberExpression' || callee.computed) return '';
  return callee.property.type === 'Identifier' ? callee.property.name : '';
}

function textsOf(argument: Argument): string[] {
  if (argument.type === 'Literal') return typeof argument.value === 'string' ? [argument.value] : [];
  if (argument.type === 'TemplateLiteral') return [textOf(argument)];
  if (argument.type !== 'ArrayExpression') return [];
  return argument.elements.flatMap((element) => (element === null ? [] : textsOf(element)));
}

/** What is put in counts as one value. */
function textOf({ quasis }: TemplateLiteral): string {
  return quasis.map(({ value }) => value.cooked ?? '').join(' $ ');
}
