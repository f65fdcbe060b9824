import { SecretsUnavailable } from './secrets-manager.ts';
import type { VaultAnswer } from './vault-http.ts';

/** What a status of Vault means for whoever runs the gateway. Vault documentation, HTTP API, status codes. */
const advice: Record<number, string> = {
  307: 'it points to another node of the cluster: VAULT_ADDR must name the active node, or the standby must forward',
  308: 'it points to another address: set VAULT_ADDR to that one',
  400: 'it does not accept the request: VAULT_MOUNT must name a KV engine of version 2',
  403: 'permission denied: the policy of the token lacks this path, or VAULT_MOUNT or VAULT_NAMESPACE is wrong',
  404: 'there is no such path: check VAULT_ADDR, VAULT_MOUNT and VAULT_NAMESPACE',
  405: 'it does not know the method: VAULT_MOUNT must name a KV engine of version 2',
  412: 'the node does not have the latest data yet',
  413: 'the secret is larger than it takes',
  429: 'too many requests: a rate limit of Vault holds',
  472: 'it is a disaster recovery replica: VAULT_ADDR must name the primary cluster',
  473: 'it is a performance standby that does not answer',
};

/**
 * The error for an answer that is not the expected one. Vault's own words stay out of it: they may quote the request.
 * `work` completes "Vault did not ...".
 */
export function refusal(work: string, { status, body }: VaultAnswer): SecretsUnavailable {
  return new SecretsUnavailable(`Vault did not ${work} (status ${status}): ${explain({ status, body })}`);
}

function explain({ status, body }: VaultAnswer): string {
  if (status === 503 && errorsOf(body).some((text) => /sealed/i.test(text))) return 'it is sealed: unseal it';
  if (status < 300)
    return 'the answer is not that of a KV engine of version 2: check VAULT_ADDR and VAULT_MOUNT';
  return advice[status] ?? (status >= 500 ? 'it is out of order or not ready' : 'the status is unexpected');
}

/** The sentences under `errors` of an answer. */
export function errorsOf(body: VaultAnswer['body']): string[] {
  const errors = body?.['errors'];
  return Array.isArray(errors) ? errors.filter((text) => typeof text === 'string') : [];
}
