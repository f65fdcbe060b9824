import type { Theme } from './workload/themes.ts';

/** Fixes of faults that were found once, each as the change that takes it back. The simulation has to notice. */
export interface Undone {
  /** Path of the module. */
  file: string;
  /** Stands in it once. */
  now: string;
  before: string;
  fault: string;
  /** A seed of 150 steps that finds it, and its theme. */
  foundBy: { seed: number; theme: Theme };
}

export const undone: Readonly<Record<string, Undone>> = {
  'suspended-handoff': {
    file: 'src/features/handoff/deliver.ts',
    now: 'const deadline = Math.min(call.deadline, handoff.deadline);',
    before: 'const { deadline } = call;',
    fault:
      'A process that stood still delivers a hand-off that another has delivered, and that was deleted since.',
    foundBy: { seed: 11, theme: 'leases' },
  },
  'suspended-reservation': {
    file: 'src/features/reservations/reservations.ts',
    now: 'const deadline = Math.min(call.deadline, plan.deadline);',
    before: 'const { deadline } = call;',
    fault: 'A process that stood still goes on with a reservation that another has finished.',
    foundBy: { seed: 1, theme: 'leases' },
  },
  'lease-from-answer': {
    file: 'src/platform/store/leases.ts',
    now: `const deadline = now() + workMs;
  return <Row>(rows: readonly Row[]): (Row & Held)[] => rows.map((row) => ({ ...row, deadline }));`,
    before: `return <Row>(rows: readonly Row[]): (Row & Held)[] => {
    const deadline = now() + workMs;
    return rows.map((row) => ({ ...row, deadline }));
  };`,
    fault: 'The deadline of work counts from when the answer with the lease is read.',
    foundBy: { seed: 1, theme: 'leases' },
  },
  'poisoned-neighbour': {
    file: 'src/crm/scheduling/batch-run.ts',
    now: "return isOthers ? { outcome, again: 'parts' } : { outcome };",
    before: 'return { outcome };',
    fault: 'Writes are refused for the fault of another one in their call.',
    foundBy: { seed: 43, theme: 'lostAnswers' },
  },
  'moved-id': {
    file: 'src/features/events/record-diff.ts',
    now: '(now.isDeleted || now.externalId !== before.externalId)',
    before: 'now.isDeleted',
    fault: 'A record whose External ID is changed in the org has no event of deletion.',
    foundBy: { seed: 4, theme: 'leases' },
  },
  'repeat-after-approval': {
    file: 'src/features/handoff/handoffs.ts',
    now: `    const known = await knownRecord(this.#options, handoff, call);
    if (known) return known;`,
    before: '',
    fault: 'A hand-off that was made waits for approval once its consumer needs it.',
    foundBy: { seed: 366, theme: 'approvals' },
  },
  'new-id-for-repeat': {
    file: 'src/api/idempotency/claims-table.ts',
    now: 'external_id = case when ${isContinued} then c.external_id else excluded.external_id end',
    before: 'external_id = excluded.external_id',
    fault: 'A repeat that goes on with an unfinished claim makes another record.',
    foundBy: { seed: 12, theme: 'everything' },
  },
  'claim-without-lease': {
    file: 'src/api/idempotency/claims-table.ts',
    now: 'or (c.completed_at is null and ${lease.isOver} and (c.fingerprint',
    before: 'or (c.completed_at is null and (c.fingerprint',
    fault: 'A repeat takes the claim of a request that still runs.',
    foundBy: { seed: 73, theme: 'lostAnswers' },
  },
  'late-forwarded-batch': {
    file: 'src/crm/scheduling/forwarded-batches.ts',
    now: 'const isLate = now() > (this.#invitations.get(invitation)?.until ?? 0);',
    before: 'const isLate = false;',
    fault: 'A process that stood still executes what its sender has given up.',
    foundBy: { seed: 42, theme: 'sharedCalls' },
  },
  'accepted-once-replaced': {
    file: 'src/features/handoff/handoffs.ts',
    now: '      await claim?.confirmOwnership();',
    before: '',
    fault:
      'A process that stood still accepts a hand-off that a repeat has made, and that was deleted since.',
    foundBy: { seed: 18, theme: 'sharedCalls' },
  },
  'free-calls': {
    file: 'src/crm/budget/call-budget.ts',
    now: `    if (this.#lease > 0) this.#lease -= 1;
    else this.#unleased += 1;`,
    before: '',
    fault: 'Calls that are made although the budget is exhausted count for nothing.',
    foundBy: { seed: 31, theme: 'sharedCalls' },
  },
  'visible-by-either': {
    file: 'src/features/events/event-visibility.ts',
    now: 'coalesce(${isVisible(columns)}, false)',
    before: 'coalesce(${isVisible(columns)} or ${isNotPrivateToAnother(columns.consumerId)}, false)',
    fault: 'Endpoints get events of records that their consumer may not see.',
    foundBy: { seed: 1, theme: 'leases' },
  },
  'fence-not-raised': {
    file: 'src/platform/store/leases.ts',
    now: '${sql.ref(fence)} = ${current} + 1',
    before: '${sql.ref(fence)} = ${current}',
    fault: 'A replaced owner passes for the new one.',
    foundBy: { seed: 330, theme: 'leases' },
  },
  'claim-forgotten': {
    file: 'src/api/idempotency/ledger.ts',
    now: 'const isUntouched = !hasWritten && row.entity_tag_before === null;',
    before: 'const isUntouched = true;',
    fault: 'A conditional write whose outcome nobody knows meets its own change when it is repeated.',
    foundBy: { seed: 346, theme: 'lostAnswers' },
  },
  'deleted-made-again': {
    file: 'src/crm/salesforce-records.ts',
    now: 'const found = await this.findWithDeleted(resource, key, call).catch(rethrowAsUnknown);',
    before: 'const found = await this.find(resource, key, call).catch(rethrowAsUnknown);',
    fault: 'A record that was made and deleted is made again by a repeat.',
    foundBy: { seed: 65, theme: 'lostAnswers' },
  },
  'copied-late': {
    file: 'src/features/read-copy/written-records.ts',
    now: `      await note(rowOf(resource, known, { written, since }));
`,
    before: '',
    fault: 'Who takes old answers misses what was acknowledged a moment ago.',
    foundBy: { seed: 10, theme: 'everything' },
  },
};
