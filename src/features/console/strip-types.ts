import { stripTypeScriptTypes } from 'node:module';

/**
 * The TypeScript as JavaScript: blanks take the place of types, so that lines and columns stay. Node calls the function
 * experimental and would say so on the terminal.
 */
export function stripTypes(code: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(code);
  } finally {
    process.emitWarning = emitWarning;
  }
}
