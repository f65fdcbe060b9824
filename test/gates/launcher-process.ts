import { runChild } from '../../scripts/run-child.js';

/** Launches the program that is given as text. */
process.exitCode = await runChild(process.execPath, ['--eval', process.argv[2] ?? '']);
