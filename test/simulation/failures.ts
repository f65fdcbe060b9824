import { describeFailure, simulateAll } from '../../simulation/main.ts';

/** Failing seeds as a person reads them. */
export async function failuresOf(args: readonly string[]): Promise<string[]> {
  const failures: string[] = [];
  await simulateAll(args, (report) => {
    if (report.violations.length > 0) failures.push(describeFailure(report, args));
    return true;
  });
  return failures;
}
