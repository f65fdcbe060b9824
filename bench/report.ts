import { readFileSync, writeFileSync } from 'node:fs';
import type { Spread } from './spread.ts';

/** A spread prints as median and, in brackets, least and most; `undefined` as a dash. */
export type Cell = string | number | Spread | undefined;

export interface Table {
  title: string;
  /** What a reader must know to read it, a sentence each. */
  notes: string[];
  /** The members of the first are the columns. */
  rows: Record<string, Cell>[];
}

/** Where a run stands in a page of the documentation. */
const start = '<!-- bench: written by npm run bench -->';
const end = '<!-- bench: end -->';

/** Tables in Markdown, which a terminal shows as well. */
export function toMarkdown(environment: Record<string, string>, tables: Table[]): string {
  const facts = Object.entries(environment).map(([name, value]) => `- ${name}: ${value}`);
  return [facts.join('\n'), ...tables.map(tableToMarkdown)].join('\n\n');
}

function tableToMarkdown({ title, notes, rows }: Table): string {
  // A row for something that is not installed has fewer columns than the others.
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [columns, ...rows.map((row) => columns.map((column) => formatCell(row[column])))];
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const [head = '', ...body] = lines.map((line) => toLine(line, widths));
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [
    `### ${title}`,
    ...(notes.length > 0 ? [notes.join('\n')] : []),
    [head, rule, ...body].join('\n'),
  ].join('\n\n');
}

function toLine(cells: string[], widths: number[]): string {
  return `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
}

export function formatCell(cell: Cell): string {
  if (cell === undefined) return '-';
  if (typeof cell === 'string') return cell;
  if (typeof cell === 'number') return formatNumber(cell);
  const { median, min, max } = cell;
  if (min === max) return formatNumber(median);
  return `${formatNumber(median)} (${formatNumber(min)}–${formatNumber(max)})`;
}

/** Three digits that matter; the rest is noise. */
function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return '-';
  if (Number.isInteger(value) || Math.abs(value) >= 100) return value.toFixed(0);
  if (Math.abs(value) >= 10) return value.toFixed(1);
  return value.toFixed(Math.abs(value) >= 1 ? 2 : 3);
}

/** Throws where the page lacks the lines around it. */
export function writeIntoPage(file: string, markdown: string): void {
  const page = readFileSync(file, 'utf8');
  const [from, to] = [page.indexOf(start), page.indexOf(end)];
  if (from === -1 || to < from)
    throw new Error(`${file} needs the lines "${start}" and "${end}" around the report`);
  writeFileSync(file, `${page.slice(0, from + start.length)}\n\n${markdown}\n\n${page.slice(to)}`);
}
