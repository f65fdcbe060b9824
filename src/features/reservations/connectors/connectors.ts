import type { Probe } from '../../../platform/observability/health.ts';
import type { Log } from '../../../platform/observability/log.ts';
import type { SecretsManager } from '../../../platform/secrets/secrets-manager.ts';
import type { ReservationMetrics } from '../metrics.ts';
import type { DiningSettings } from '../settings.ts';
import { type CrmConnectorOptions, createCrmConnector } from './crm.ts';
import { createDiningConnector } from './dining/dining.ts';

/** Settings of a connector that is not configured are undefined. */
export interface ConnectorOptions {
  crm: CrmConnectorOptions;
  dining: DiningSettings | undefined;
  secrets: SecretsManager;
  secretsRefreshSeconds: number;
  log: Log;
  metrics: ReservationMetrics;
  opened: AsyncDisposableStack;
}

/** The register: every connector, a line each; undefined where it is not configured. */
export function openConnectors(options: ConnectorOptions) {
  return {
    crm: createCrmConnector(options.crm),
    dining: options.dining && createDiningConnector({ ...options, ...options.dining }),
  };
}

export type Connectors = ReturnType<typeof openConnectors>;

export function healthOf(connectors: Connectors): Record<string, Probe> {
  const configured = Object.values(connectors).filter((connector) => connector !== undefined);
  return Object.fromEntries(configured.map((each) => [each.name, () => each.checkHealth()]));
}
