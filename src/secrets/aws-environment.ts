import type { AwsOptions } from './aws.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Options of the AWS adapter from environment variables, or a sentence for each that is missing or wrong. Region and
 * credentials are found by the SDK itself, in its own variables and files; only a region that nobody names is told
 * here, since the SDK would say so at the first call only.
 */
export function readAwsEnvironment(env: Environment): AwsOptions | { faults: string[] } {
  const faults: string[] = [];
  const prefix = env['AWS_SECRETS_PREFIX']?.trim() || 'handoff-gateway/';
  if (!/^[A-Za-z0-9/_+=.@-]{1,200}$/.test(prefix))
    faults.push('AWS_SECRETS_PREFIX must have 1 to 200 characters of A-Z, a-z, 0-9 and /_+=.@-');
  // A profile may name the region.
  if (!env['AWS_REGION'] && !env['AWS_PROFILE'] && !env['AWS_CONFIG_FILE'])
    faults.push('AWS_REGION is missing: the secrets manager is aws');
  return faults.length > 0 ? { faults } : { prefix };
}
