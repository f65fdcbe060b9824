import type { Metrics } from '../../platform/observability/metrics.ts';
import type { AccessToken } from './access-token.ts';

/** Shows since when the token of the calls is in use here, and how long it lives. */
export function createTokenGauges(metrics: Metrics): (token: AccessToken) => void {
  let latest: string | undefined;
  return ({ accessToken, expiresAt }) => {
    if (accessToken === latest) return;
    latest = accessToken;
    metrics.crmTokenAge.restart();
    metrics.crmTokenExpiresAt.set(expiresAt / 1000);
  };
}
