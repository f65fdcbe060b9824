export interface Breakage {
  name: string;
  title: string;
  watch: string;
  system: 'crm' | 'dining';
  /** A fault of its simulator: `simulators/salesforce/README.md` and `simulators/dining/README.md`. */
  fault: object;
  endsSessions?: true;
}

export const breakages: readonly Breakage[] = [
  {
    name: 'salesforce_away',
    title: 'Salesforce is away',
    watch:
      'Hand off a sample: it’s saved and appears under Waiting, and a strip on every page counts down to the next try. After Fix, ' +
      'the record is created by itself.',
    system: 'crm',
    fault: { effect: { kind: 'down' } },
  },
  {
    name: 'salesforce_slow',
    title: 'Salesforce is slow',
    watch:
      'Every call takes 6 seconds longer. A hand-off answers within 5 seconds all the same, as accepted; Health shows the latency.',
    system: 'crm',
    fault: { effect: { kind: 'latency', ms: 6000 } },
  },
  {
    name: 'answers_lost',
    title: 'Answers get lost',
    watch:
      'Salesforce does the work, but half of its answers never arrive. Hand off a sample and search for it on Records: it’s there ' +
      'exactly once.',
    system: 'crm',
    fault: { effect: { kind: 'loseAnswer' }, probability: 0.5 },
  },
  {
    name: 'sign_in_refused',
    title: 'Salesforce refuses the sign-in',
    watch:
      'The gateway has no session, and Salesforce gives it no new one. Health says why, in Salesforce’s own words; hand-offs are saved.',
    system: 'crm',
    fault: {
      effect: {
        kind: 'tokenError',
        error: 'rate_limit_exceeded',
        description: 'login rate exceeded',
      },
    },
    endsSessions: true,
  },
  {
    name: 'quota_used_up',
    title: 'The API quota is used up',
    watch:
      'Salesforce refuses every call for the rest of the day. Hand off a sample: it’s saved and waits for calls.',
    system: 'crm',
    fault: { effect: { kind: 'dailyLimit' } },
  },
  {
    name: 'trigger_throws',
    title: 'A trigger throws',
    watch:
      'Somebody’s Apex code fails at every write. Hand off a sample: it’s refused with the trigger’s own words, since no retry would help.',
    system: 'crm',
    fault: {
      effect: {
        kind: 'recordError',
        errorCode: 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY',
        message:
          'TripTrigger: execution of BeforeInsert\n\ncaused by: System.NullPointerException: Attempt to de-reference a null ' +
          'object\n\nTrigger.TripTrigger: line 12, column 1',
      },
    },
  },
  {
    name: 'dining_away',
    title: 'The dining partner is away',
    watch: 'Tables can’t be reserved, and Health shows which part it is; quotes and bookings work as before.',
    system: 'dining',
    fault: { effect: { kind: 'error', status: 503 } },
  },
];
