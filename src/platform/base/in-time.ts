import { clearTimeout, setTimeout } from './chance.ts';
/** The result of the work, if it comes within `ms` milliseconds. Throws what `late` makes else; the work goes on. */
export async function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => deadline.reject(late()), ms);
  try {
    return await Promise.race([work, deadline.promise]);
  } finally {
    clearTimeout(timer);
  }
}
