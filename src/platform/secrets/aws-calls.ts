import type { SecretsManager as Client } from '@aws-sdk/client-secrets-manager';
import { timeoutSignal } from '../base/chance.ts';
import { SecretsUnavailable } from './secrets-manager.ts';

/** Most pages of a list, of 100 names each. */
const maxPages = 500;

export class AwsRefusal extends Error {
  override readonly name = 'AwsRefusal';
  readonly code: string;
  readonly isBeingDeleted: boolean;

  constructor(code: string, isBeingDeleted: boolean) {
    super(code);
    this.code = code;
    this.isBeingDeleted = isBeingDeleted;
  }
}

const documented = [
  'ResourceNotFoundException',
  'ResourceExistsException',
  'InvalidRequestException',
  'InvalidParameterException',
];

interface AwsCallsOptions {
  /** Undefined: as the SDK finds it in its own variables and files. */
  region: string | undefined;
  /** Milliseconds for one call with all its attempts. */
  timeoutMs: number;
}

/**
 * The calls of AWS Secrets Manager that the adapter needs (AWS Secrets Manager API Reference), each with a time limit
 * over all its attempts. Every call throws `AwsRefusal` or `SecretsUnavailable`. The SDK is loaded with the first call.
 */
export class AwsCalls {
  readonly #options: AwsCallsOptions;
  #loading: Promise<Client> | undefined;

  constructor(options: AwsCallsOptions) {
    this.#options = options;
  }

  async get(name: string): Promise<{ value: string; version: string; stages: string[] }> {
    const found = await this.#send('GetSecretValue', (client, options) =>
      client.getSecretValue({ SecretId: name, VersionStage: 'AWSCURRENT' }, options),
    );
    // A file that was stored with the AWS command line is binary.
    const value = found.SecretString ?? Buffer.from(found.SecretBinary ?? []).toString('utf8');
    return { value, version: found.VersionId ?? '', stages: found.VersionStages ?? [] };
  }

  /** Creates a secret whose first version has that id. A repeat with the same id and value changes nothing. */
  async create(name: string, value: string, version: string): Promise<void> {
    await this.#send('CreateSecret', (client, options) =>
      client.createSecret({ Name: name, SecretString: value, ClientRequestToken: version }, options),
    );
  }

  /** Adds a version under a stage of its own: what is current stays so. A repeat changes nothing. */
  async addVersion(name: string, value: string, version: string, stage: string): Promise<void> {
    await this.#send('PutSecretValue', (client, options) =>
      client.putSecretValue(
        { SecretId: name, SecretString: value, ClientRequestToken: version, VersionStages: [stage] },
        options,
      ),
    );
  }

  /** Makes one version current if another one is so now; the service refuses where that is not the current one. */
  async moveCurrent(name: string, from: string, to: string): Promise<void> {
    await this.#send('UpdateSecretVersionStage', (client, options) =>
      client.updateSecretVersionStage(
        { SecretId: name, VersionStage: 'AWSCURRENT', RemoveFromVersionId: from, MoveToVersionId: to },
        options,
      ),
    );
  }

  async remove(name: string): Promise<void> {
    await this.#send('DeleteSecret', (client, options) =>
      client.deleteSecret({ SecretId: name, ForceDeleteWithoutRecovery: true }, options),
    );
  }

  async listNames(prefix: string): Promise<string[]> {
    const names: string[] = [];
    let token: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const request = { Filters: [{ Key: 'name' as const, Values: [prefix] }], MaxResults: 100 };
      const next = token === undefined ? {} : { NextToken: token };
      const answer = await this.#send('ListSecrets', (client, options) =>
        client.listSecrets({ ...request, ...next }, options),
      );
      names.push(...(answer.SecretList ?? []).map(({ Name = '' }) => Name));
      token = answer.NextToken;
      if (token === undefined) return names.filter((name) => name.startsWith(prefix));
    }
    throw new SecretsUnavailable(
      `AWS Secrets Manager has more than ${maxPages * 100} secrets under ${prefix}`,
    );
  }

  async ping(prefix: string): Promise<void> {
    await this.#send('ListSecrets', (client, options) =>
      client.listSecrets({ Filters: [{ Key: 'name', Values: [prefix] }], MaxResults: 1 }, options),
    );
  }

  async close(): Promise<void> {
    (await this.#loading?.catch(() => undefined))?.destroy();
  }

  async #send<T>(
    call: string,
    work: (client: Client, options: { abortSignal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    try {
      this.#loading ??= load(this.#options);
      return await work(await this.#loading, { abortSignal: timeoutSignal(this.#options.timeoutMs) });
    } catch (error) {
      throw translate(call, error);
    }
  }
}

async function load({ region, timeoutMs }: AwsCallsOptions): Promise<Client> {
  const { SecretsManager } = await import('@aws-sdk/client-secrets-manager');
  return new SecretsManager({
    ...(region && { region }),
    // Three attempts with back-off, the SDK's own; each gets part of the time.
    requestHandler: {
      connectionTimeout: timeoutMs / 4,
      requestTimeout: timeoutMs / 2,
      throwOnRequestTimeout: true,
    },
  });
}

/** Errors by name, and what the operator can do. The first row that matches counts. */
const advice: [name: RegExp, advice: string][] = [
  [
    /^(Throttl|TooManyRequests|RequestLimitExceeded|LimitExceeded)/,
    "it's limiting requests, or the secret has too many versions",
  ],
  [/^AccessDenied/, "these credentials' IAM policy doesn't allow it"],
  [/Token|Signature|ClientTokenId|AuthFailure/, "it rejects the credentials: they're wrong or have expired"],
  [/Credentials/, "there are no credentials: give the process a role, or set the AWS SDK's variables"],
  [/^(Decryption|Encryption)Failure/, "these credentials can't use the secret's KMS key"],
  [/^(Timeout|Abort)/, 'no answer in time'],
  [/^(Internal|ServiceUnavailable)/, "it isn't working"],
];

/**
 * Only names of errors are passed on. The message of a wrong signature quotes the request with its session token, and so
 * does the error as a cause.
 */
function translate(call: string, error: unknown): Error {
  const {
    name = 'Error',
    message = '',
    code = '',
    $metadata = {},
  } = error as { name?: string; message?: string; code?: string; $metadata?: { requestId?: string } };
  // The service's words: "marked for deletion", "scheduled for deletion", "was deleted".
  if (documented.includes(name)) return new AwsRefusal(name, /delet/i.test(message));
  const what = /^E[A-Z_]+$/.test(code) ? code : name;
  const isRegionMissing = /region is missing/i.test(message);
  const reason = isRegionMissing ? 'no region is set: set AWS_REGION' : adviceFor(what);
  const id = $metadata.requestId === undefined ? '' : `, request ${$metadata.requestId}`;
  return new SecretsUnavailable(`AWS Secrets Manager, ${call}: ${reason} (${what}${id})`);
}

function adviceFor(what: string): string {
  return advice.find(([pattern]) => pattern.test(what))?.[1] ?? 'the call failed';
}
