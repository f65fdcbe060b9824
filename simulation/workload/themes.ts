import { Random } from '../virtual/random.ts';

/** Weight of each action in a step. */
export const weights = {
  handOff: 12,
  handOffLater: 8,
  callTool: 4,
  handOffTrip: 5,
  handOffAgain: 5,
  handOffTwice: 2,
  deleteItem: 2,
  post: 8,
  crowd: 2,
  change: 9,
  remove: 6,
  reserve: 5,
  cancelReservation: 3,
  repeat: 6,
  read: 6,
  decide: 4,
  look: 3,
  reportMember: 2,
  failOrg: 9,
  failPartner: 3,
  suspend: 4,
  suspendAt: 1,
  kill: 2,
  restart: 0.6,
  cut: 3,
  disturb: 4,
  moveClock: 1,
  requireApproval: 2,
  limitRights: 1,
  rotateKeys: 1,
  fetchToken: 1,
  editOrg: 3,
  deleteLost: 1,
  moveId: 1.5,
  revokeTokens: 0.5,
  failReceiver: 1.5,
  subscribe: 0.5,
  unsubscribe: 0.3,
  renewSecret: 0.7,
  takeOverHandoff: 0,
  takeOverReservation: 0,
  takeOverCall: 0,
  hideUser: 0,
};

export type StepName = keyof typeof weights;

/** A seed has one, since some faults need many conditions at once. */
export type Theme = 'everything' | 'leases' | 'lostAnswers' | 'approvals' | 'sharedCalls';

const shares: Record<Exclude<Theme, 'sharedCalls'>, number> = {
  everything: 5,
  leases: 3,
  lostAnswers: 2,
  approvals: 2,
};
const sharedCallsShare = 0.08;

interface ThemePlan {
  /** In place of the usual weights. */
  weights: Partial<Record<StepName, number>>;
  /** Steps in a hundred that wait for seconds: leases run out meanwhile. */
  pausePercent: number;
}

export const themes: Record<Theme, ThemePlan> = {
  everything: { weights: {}, pausePercent: 1 },
  // Processes stand still with a lease; what they had is finished and deleted by the time that they go on.
  leases: {
    weights: {
      takeOverHandoff: 8,
      takeOverReservation: 8,
      suspendAt: 3,
      look: 24,
      handOffLater: 20,
      remove: 14,
      editOrg: 8,
      reserve: 14,
      cancelReservation: 12,
      failPartner: 6,
      kill: 0.3,
      cut: 1,
      crowd: 0,
      disturb: 1,
      failOrg: 2,
      handOffTrip: 2,
      callTool: 1,
      post: 2,
      reportMember: 0,
      rotateKeys: 0,
      suspend: 0.3,
    },
    pausePercent: 8,
  },
  // Calls take effect, and nobody hears of it.
  lostAnswers: {
    weights: {
      failOrg: 18,
      deleteLost: 12,
      change: 18,
      post: 12,
      handOff: 14,
      cut: 5,
      crowd: 0,
      reserve: 2,
      reportMember: 0,
      rotateKeys: 0,
      suspend: 1,
      kill: 1,
    },
    pausePercent: 3,
  },
  // What was made without approval is repeated when it needs one.
  approvals: {
    weights: {
      requireApproval: 14,
      failOrg: 12,
      handOff: 24,
      handOffLater: 6,
      decide: 6,
      cut: 5,
      crowd: 0,
      reserve: 1,
      reportMember: 0,
      rotateKeys: 0,
      suspend: 1,
      kill: 1,
      change: 3,
      post: 1,
    },
    pausePercent: 3,
  },
  // The calls of the day are few: replicas share them.
  sharedCalls: {
    weights: { takeOverCall: 12, hideUser: 3, suspend: 1, suspendAt: 0, kill: 1, cut: 1, failOrg: 4 },
    pausePercent: 3,
  },
};

export function themeOf(seed: number): Theme {
  if (new Random(seed ^ 0xca11).chance(sharedCallsShare)) return 'sharedCalls';
  return new Random(seed ^ 0x7e3e).weighted(shares);
}
