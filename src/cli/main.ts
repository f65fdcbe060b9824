import { runCommandLine } from './cli.ts';

/** The code of a program that a closed pipe ended: 128 and the number of SIGPIPE, which Node ignores. */
const closedPipe = 141;

for (const output of [process.stdout, process.stderr])
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(closedPipe);
  });

await runCommandLine(process.argv.slice(2));
