import { type ConnectionState, shareProbe } from '../../../../platform/observability/health.ts';
import type { Log } from '../../../../platform/observability/log.ts';
import { type Method, methods, partner } from './booking-server.ts';
import { PartnerFailure } from './partner-failure.ts';
import type { Password } from './password.ts';

export interface PartnerHealth {
  noteOutcome(method: Method, failure: PartnerFailure | undefined): void;
  check(): Promise<ConnectionState>;
}

export interface PartnerHealthOptions {
  log: Log;
  password: Pick<Password, 'generation'>;
  /** Throws `PartnerFailure`. */
  healthCheck: () => Promise<unknown>;
}

/**
 * A HealthCheck shows whether the partner answers; all callers share its result for 2 s. Some partners accept it without
 * credentials, so refused credentials of other calls are remembered until they work or are replaced. They are logged for
 * the operator: such credentials live six months, and only a person can renew them.
 */
export function createPartnerHealth({ log, password, healthCheck }: PartnerHealthOptions): PartnerHealth {
  let refused: number | undefined;
  const isRefused = () => refused === password.generation;
  const probe = shareProbe(async () => {
    try {
      await healthCheck();
      return { connected: true };
    } catch (error) {
      if (error instanceof PartnerFailure) return { connected: false };
      throw error;
    }
  });
  return {
    noteOutcome: (method, failure) => {
      if (failure?.kind === 'credentials') {
        const facts = { partner, operation: method.name, reason: failure.message };
        if (!isRefused()) log.error(facts, 'the dining partner refuses our credentials: renew them');
        refused = password.generation;
      } else if (method !== methods.healthCheck && acceptedCredentials(failure)) {
        refused = undefined;
      }
    },
    check: async () => {
      const state = await probe();
      return isRefused() ? { connected: false, reason: 'credentials' } : state;
    },
  };
}

function acceptedCredentials(failure: PartnerFailure | undefined): boolean {
  return failure === undefined || ['invalid', 'missing', 'busy', 'absent'].includes(failure.kind);
}
