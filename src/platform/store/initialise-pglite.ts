import { PGlite } from '@electric-sql/pglite';

// Run as a process of its own by pglite.ts, on first use of a folder: makes the files of the database and ends.
const [dataDir, ...startParams] = process.argv.slice(2) as [string, ...string[]];
const database = await PGlite.create({ dataDir, startParams });
await database.close();
