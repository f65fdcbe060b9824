import { destination } from 'pino';

/**
 * Writes lines to standard output. What one turn of the event loop has to say goes out in one piece at its end: a
 * system call for each line would cost a busy process more than the lines themselves. Nothing is kept beyond that, and
 * an orderly end writes what is left.
 */
export function createLineWriter() {
  let output: { write(text: string): unknown } | undefined;
  let lines = '';
  const flush = () => {
    const text = lines;
    lines = '';
    if (text !== '') output?.write(text);
  };
  return {
    write(line: string): void {
      // Made with the first line: many a logger never says anything.
      if (output === undefined) {
        output = destination({ fd: 1, sync: true });
        process.once('exit', flush);
      }
      if (lines === '') setImmediate(flush);
      lines += line;
    },
  };
}
