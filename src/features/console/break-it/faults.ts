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
    title: 'Salesforce is down',
    watch:
      'Hand off a sample. It’s saved and appears under Waiting, and a strip on every page counts down to the next try. Click Fix, ' +
      'and the record is created on its own.',
    system: 'crm',
    fault: { effect: { kind: 'down' } },
  },
  {
    name: 'salesforce_slow',
    title: 'Salesforce is slow',
    watch:
      'Every call takes 6 seconds longer. A hand-off is still answered within 5 seconds, and saved for later. Health shows the latency.',
    system: 'crm',
    fault: { effect: { kind: 'latency', ms: 6000 } },
  },
  {
    name: 'answers_lost',
    title: 'Responses get lost',
    watch:
      'Salesforce does the work, but half of its responses never arrive. Hand off a sample and search for it under Records. It’s ' +
      'there exactly once.',
    system: 'crm',
    fault: { effect: { kind: 'loseAnswer' }, probability: 0.5 },
  },
  {
    name: 'sign_in_refused',
    title: 'Salesforce refuses the sign-in',
    watch:
      'The gateway’s session ends, and Salesforce won’t give it a new one. Health shows why, in Salesforce’s own words. Hand-offs are saved.',
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
      'Salesforce refuses every call for the rest of the day. Hand off a sample. It’s saved and waits for the quota to reset.',
    system: 'crm',
    fault: { effect: { kind: 'dailyLimit' } },
  },
  {
    name: 'trigger_throws',
    title: 'A trigger fails',
    watch:
      'An Apex trigger fails on every write. Hand off a sample. It’s refused with the trigger’s own error, since retrying wouldn’t help.',
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
    title: 'The dining partner is down',
    watch:
      'Tables can’t be reserved, and Health shows which part is down. Quotes and bookings work as usual.',
    system: 'dining',
    fault: { effect: { kind: 'error', status: 503 } },
  },
];
