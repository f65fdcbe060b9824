import { parseSync, Visitor } from 'oxc-parser';

/** A small change to a file: `text` in place of what is between two offsets. */
export interface Mutant {
  /** Path from the root, line, and what is in place of what. */
  name: string;
  file: string;
  start: number;
  end: number;
  text: string;
}

const operators: Record<string, string> = {
  ...{ '===': '!==', '!==': '===', '<': '<=', '<=': '<', '>': '>=', '>=': '>' },
};
/** Of SQL in templates, as whole words. */
const words: readonly [RegExp, string][] = [
  [/\bor\b/g, 'and'],
  [/\band\b/g, 'or'],
  [/ <= /g, ' < '],
  [/ >= /g, ' > '],
  [/\bis not null\b/g, 'is null'],
];

/** Each comparison moved by one or turned, each part of a condition left out, each truth turned, each word of SQL changed. */
export function mutantsOf(file: string, code: string): Mutant[] {
  const { program } = parseSync(file, code);
  const found: Mutant[] = [];
  /** Offsets of literals that are types. */
  const types = new Set<number>();
  const add = (start: number, end: number, text: string) => {
    const line = code.slice(0, start).split('\n').length;
    const short = (one: string) => one.replaceAll(/\s+/g, ' ').slice(0, 60);
    found.push({
      name: `${file}:${line} ${short(code.slice(start, end))} -> ${short(text)}`,
      file,
      start,
      end,
      text,
    });
  };
  new Visitor({
    BinaryExpression({ start, end, left, right, operator }) {
      const other = operators[operator];
      if (other !== undefined)
        add(start, end, `${code.slice(start, left.end)} ${other} ${code.slice(right.start, end)}`);
    },
    LogicalExpression({ start, end, left, right, operator }) {
      if (operator === '??') return;
      add(start, end, code.slice(left.start, left.end));
      add(start, end, code.slice(right.start, right.end));
    },
    TSLiteralType: ({ literal }) => void types.add(literal.start),
    Literal({ start, end, value }) {
      if (typeof value === 'boolean' && !types.has(start)) add(start, end, String(!value));
    },
    TaggedTemplateExpression({ tag, quasi }) {
      if (!/^sql\b/.test(code.slice(tag.start, tag.end))) return;
      for (const { start, end } of quasi.quasis)
        for (const [word, other] of words)
          for (const match of code.slice(start, end).matchAll(word))
            add(start + match.index, start + match.index + match[0].length, other);
    },
  }).visit(program);
  return found;
}
