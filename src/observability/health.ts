/** What a resource tells of itself; `connected` is the least. */
export interface ConnectionState {
  connected: boolean;
  [fact: string]: unknown;
}

export interface HealthReport {
  status: 'ok' | 'unavailable';
  [resource: string]: ConnectionState | string;
}

/** Looks whether one resource can be reached. */
export type Probe = () => Promise<ConnectionState>;

/** How long one look serves everybody: an endpoint that needs no credentials must not become a way to cause load. */
const sharedForMs = 2000;
const probeTimeoutMs = 2000;

/**
 * Health of every configured resource, in the order given. The service is unavailable if and only if one of
 * `essential` is not connected; the others only show.
 */
export function createHealth(probes: Record<string, Probe>, essential: readonly string[]) {
  const looks = Object.entries(probes);
  return async function report(): Promise<HealthReport> {
    const states = await Promise.all(looks.map(async ([name, look]) => [name, await look()] as const));
    const down = states.some(([name, state]) => essential.includes(name) && !state.connected);
    return { status: down ? 'unavailable' : 'ok', ...Object.fromEntries(states) };
  };
}

/**
 * One look serves all callers for 2 s; one that fails or takes too long has found nothing. For probes that don't see
 * to that themselves.
 */
export function shareProbe(probe: Probe): Probe {
  let latest: Promise<ConnectionState> | undefined;
  let takenAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (!latest || performance.now() - takenAt > sharedForMs) {
      takenAt = performance.now();
      latest = withTimeout(probe()).catch(() => ({ connected: false }));
    }
    return latest;
  };
}

async function withTimeout(look: Promise<ConnectionState>): Promise<ConnectionState> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<ConnectionState>((resolve) => {
    timer = setTimeout(resolve, probeTimeoutMs, { connected: false });
  });
  return Promise.race([look, late]).finally(() => clearTimeout(timer));
}
