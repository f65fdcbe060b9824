/** Words after which the name of a table comes; after all but `into` perhaps several, with commas between. */
const beforeTable = new Set(['from', 'join', 'into', 'update', 'using', 'truncate', 'lock', 'table']);
/** Words between those and the name. */
const betweenWords = new Set(['only', 'lateral', 'table', 'if', 'not', 'exists']);
/** Words that end a list of tables. */
const endOfTables = new Set(
  'select where group order having limit offset set returning union intersect except values for ;'.split(' '),
);

/** What stands between two parentheses, with the queries that are named in it by `with`. */
interface Scope {
  queries: Set<string>;
  /** A comma comes before another table. */
  isList: boolean;
  /** Becomes a named query of the scope around it, at its end. */
  name?: string | undefined;
}

/** The tables that a text of SQL names, also a part of a statement. What stands for a value in it is `$`. */
export function tablesIn(text: string): Set<string> {
  const tokens = (text.match(tokenPattern) ?? []).filter((token) => !/^(?:--|\/\*)/.test(token)).map(plain);
  const found = new Set<string>();
  const scopes: Scope[] = [newScope()];
  for (const [at, token] of tokens.entries()) {
    const scope = scopes.at(-1) as Scope;
    if (token === '(') scopes.push(newScope(namedQuery(tokens, at)));
    else if (token === ')') closeScope(scopes);
    else if (endOfTables.has(token)) scope.isList = false;
    const table = tableAfter(tokens, at, scope) ?? castToTable(tokens, at);
    if (table !== undefined && !scopes.some(({ queries }) => queries.has(table))) found.add(table);
  }
  return found;
}

const tokenPattern = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"[^"]*"|[a-z_][a-z0-9_]*|\S/gi;

/** Quoted names count like others: all tables have names in lower case. */
function plain(token: string): string {
  return token.startsWith("'") ? token : token.toLowerCase().replaceAll('"', '');
}

function newScope(name?: string): Scope {
  return { queries: new Set(), isList: false, name };
}

function closeScope(scopes: Scope[]): void {
  if (scopes.length === 1) return;
  const { name } = scopes.pop() as Scope;
  if (name !== undefined) scopes.at(-1)?.queries.add(name);
}

/** The name of a query in a `with` whose parenthesis opens here. Within it the name still stands for the table. */
function namedQuery(tokens: readonly string[], open: number): string | undefined {
  let at = open - 1;
  while (tokens[at] === 'materialized' || tokens[at] === 'not') at--;
  if (tokens[at] !== 'as') return undefined;
  at--;
  // The names of its columns.
  if (tokens[at] === ')') at = tokens.lastIndexOf('(', at) - 1;
  return ['with', 'recursive', ','].includes(tokens[at - 1] ?? '') ? tokens[at] : undefined;
}

/** The table whose name follows this token. */
function tableAfter(tokens: readonly string[], at: number, scope: Scope): string | undefined {
  const token = tokens[at] as string;
  if (token === ',' ? !scope.isList : !isBeforeTable(tokens, at)) return undefined;
  if (token !== 'into') scope.isList = true;
  const nameAt = indexOfName(tokens, at);
  const name = tokens[nameAt] ?? '';
  // Only after these a parenthesis holds columns; elsewhere the arguments of a function.
  const isFunction = tokens[nameAt + 1] === '(' && token !== 'into' && token !== 'table';
  return isFunction || !/^[a-z_]/.test(name) ? undefined : name;
}

function indexOfName(tokens: readonly string[], keyword: number): number {
  let at = keyword + 1;
  while (betweenWords.has(tokens[at] ?? '')) at++;
  if (tokens[at] === '(' && tokens[keyword] !== 'using') at++;
  return tokens[at] === 'public' && tokens[at + 1] === '.' ? at + 2 : at;
}

/** `is distinct from` compares. */
function isBeforeTable(tokens: readonly string[], at: number): boolean {
  const [before, previous] = [tokens[at - 2] ?? '', tokens[at - 1]];
  return beforeTable.has(tokens[at] ?? '') && !(previous === 'distinct' && ['is', 'not'].includes(before));
}

/** The table of `'name'::regclass` and `to_regclass('name')`. */
function castToTable(tokens: readonly string[], at: number): string | undefined {
  const token = tokens[at] as string;
  if (!token.startsWith("'")) return undefined;
  const isCast = tokens.slice(at + 1, at + 4).join('') === '::regclass' || tokens[at - 2] === 'to_regclass';
  return isCast ? token.slice(1, -1).split('.').at(-1) : undefined;
}
