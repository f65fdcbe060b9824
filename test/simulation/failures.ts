import { describeFailure, simulateAll } from '../../simulation/main.ts';

/** `failures`: failing seeds as a person reads them; `done`: how many seeds were played. */
export async function play(args: readonly string[]): Promise<{ done: number; failures: string[] }> {
  const failures: string[] = [];
  let done = 0;
  await simulateAll(args, (report) => {
    done += 1;
    if (report.violations.length > 0) failures.push(describeFailure(report, args));
    return true;
  });
  return { done, failures };
}

export async function failuresOf(args: readonly string[]): Promise<string[]> {
  const { failures } = await play(args);
  return failures;
}
