import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { Log } from '../../platform/observability/log.ts';
import { parseObject, readInstanceUrl } from './access-token.ts';
import type { IssuedToken } from './token-endpoint.ts';

const keptMs = 90 * 86_400_000;

function keyOf(environment: string): string {
  return `crm_org:${environment}`;
}

export async function readKnownOrg(cache: SharedCache, environment: string) {
  const record = parseObject(await cache.get(keyOf(environment)).catch(() => undefined));
  const id = record?.['org_id'];
  return {
    id: typeof id === 'string' ? id : undefined,
    instanceUrl: readInstanceUrl(record?.['instance_url']),
  };
}

/** Notes the org of a token, and warns where it is another one than before: a refreshed sandbox is a new org. Never throws. */
export async function noteOrg(
  { orgId, instanceUrl }: IssuedToken,
  { cache, environment, log }: { cache: SharedCache; environment: string; log: Log },
): Promise<void> {
  const before = await readKnownOrg(cache, environment);
  if (orgId !== undefined && before.id !== undefined && orgId !== before.id) {
    const advice =
      'If a sandbox was refreshed, or the settings name another org on purpose, see "After a sandbox refresh" in salesforce-org.md.';
    log.warn({ orgId, formerOrgId: before.id, advice }, 'Salesforce is a different org than before');
  }
  const record = JSON.stringify({ org_id: orgId ?? before.id, instance_url: instanceUrl });
  await cache.set(keyOf(environment), record, keptMs).catch(() => undefined);
}
