import { randomInt } from 'node:crypto';

/** Whether `npm run test:nightly` runs, which tries all of what `npm test` tries a part of. */
export const isNightly = process.env['TEST_NIGHTLY'] === 'true';

/** `TEST_SEED` chooses the part again that a run has named. */
const seed = Number(process.env['TEST_SEED'] ?? randomInt(1000));
if (!isNightly) process.on('exit', (code) => code > 0 && console.error(`TEST_SEED=${seed}`));

/** Every `step`th of the items, from one on that is chosen by chance; in the nightly run all. */
export function* partOf<T>(items: Iterable<T>, step: number): Generator<T> {
  let n = seed;
  for (const item of items) if (isNightly || n++ % step === 0) yield item;
}
