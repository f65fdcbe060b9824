import { Counter, Gauge, type Registry } from 'prom-client';

export function accessMetrics(registers: Registry[]) {
  return {
    authenticationAttempts: new Counter({
      name: 'handoff_authentication_attempts_total',
      help: 'Authentication attempts by result.',
      labelNames: ['result'] as const,
      registers,
    }),
    secretsLoadedAt: new Gauge({
      name: 'handoff_secrets_loaded_timestamp_seconds',
      help: 'When all consumers and keys were last read from the secrets manager without a failure.',
      aggregator: 'min',
      registers,
    }),
    consumerFailedAttempts: new Counter({
      name: 'handoff_consumer_failed_attempts_total',
      help: 'Attempts with the API key of a consumer that were refused with 401 or 403, by consumer.',
      labelNames: ['consumer_id'] as const,
      registers,
    }),
    consumerValidUntil: new Gauge({
      name: 'handoff_consumer_valid_until_timestamp_seconds',
      help: 'When the credentials of each enabled consumer that has a validUntil end.',
      labelNames: ['consumer_id'] as const,
      aggregator: 'max',
      registers,
    }),
    consumerNewNetworks: new Counter({
      name: 'handoff_consumer_new_networks_total',
      help: 'Uses of valid credentials from a network (/24 of IPv4, /48 of IPv6) that was new to their consumer; the log names both.',
      registers,
    }),
    auditAttemptsDropped: new Counter({
      name: 'handoff_audit_attempts_dropped_total',
      help: 'Authentication attempts that never reached the database, which was unavailable for too long; the log has them.',
      registers,
    }),
    tlsHandshakeFailures: new Counter({
      name: 'handoff_tls_handshake_failures_total',
      help: 'Connections to the API port that never got through the TLS handshake.',
      registers,
    }),
  };
}
