import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { closeServer, listen } from '../../simulators/shared/server.ts';

/** What goes wrong with a call; `lost` does the work and then cuts the connection in place of an answer. */
export type AwsFault = 'throttled' | 'denied' | 'broken' | 'hang' | 'reset' | 'lost' | 'signature';

export interface AwsServerCall {
  /** Such as `GetSecretValue`. */
  action: string;
  /** What the call names: a secret, or the filter of a list. */
  name: string;
}

interface Version {
  value: string;
  stages: Set<string>;
}

interface StoredSecret {
  versions: Map<string, Version>;
  /** `performance.now()` from which the name is free again; a scheduled deletion takes days. */
  goneAt: number | undefined;
}

interface Input {
  Name?: string;
  SecretId?: string;
  SecretString?: string;
  ClientRequestToken?: string;
  VersionStages?: string[];
  VersionStage?: string;
  VersionId?: string;
  RemoveFromVersionId?: string;
  MoveToVersionId?: string;
  ForceDeleteWithoutRecovery?: boolean;
  Filters?: { Key: string; Values: string[] }[];
  MaxResults?: number;
  NextToken?: string;
}

/** An error as the service answers it, by JSON protocol 1.1. */
class Refused extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const namePattern = /^[A-Za-z0-9/_+=.@-]{1,512}$/;
const maxStages = 20;

/**
 * Stands in for AWS Secrets Manager in tests: versions and their stages, deletion at once (in the background) and
 * scheduled, lists with pages. Written from the AWS Secrets Manager API Reference. It looks at the access key of a
 * signature and not at the signature.
 */
export class AwsSecretsServer {
  readonly calls: AwsServerCall[] = [];
  url = '';
  readonly accessKeyId = 'AKIDTESTTESTTESTTEST';
  fault: (call: AwsServerCall) => AwsFault | undefined = () => undefined;
  /** Names that lists do not have yet. */
  readonly unlisted = new Set<string>();
  /** How long a name stays taken after a deletion at once. */
  removalMs = 20;
  /** Whether versions without a stage are removed at once, in place of some day. */
  removesVersionsAtOnce = false;
  readonly #secrets = new Map<string, StoredSecret>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  static async start(): Promise<AwsSecretsServer> {
    const server = new AwsSecretsServer();
    server.url = (await listen(server.#server)).url;
    return server;
  }

  stop(): Promise<void> {
    return closeServer(this.#server);
  }

  /** What an operator does in the console: deletes with the usual recovery window. */
  scheduleDeletion(name: string): void {
    this.#find(name).goneAt = Number.POSITIVE_INFINITY;
  }

  /** A secret that was made without a value. */
  makeEmpty(name: string): void {
    this.#secrets.set(name, { versions: new Map(), goneAt: undefined });
  }

  /** All stages that versions of the secret have. */
  stagesOf(name: string): string[] {
    return [...this.#find(name).versions.values()].flatMap(({ stages }) => [...stages]).sort();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const input = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Input;
    const action = String(request.headers['x-amz-target']).replace('secretsmanager.', '');
    const call = { action, name: input.SecretId ?? input.Name ?? input.Filters?.[0]?.Values[0] ?? '' };
    this.calls.push(call);
    const fault = this.fault(call);
    if (fault === 'hang') return;
    if (fault === 'reset') return void request.socket.destroy();
    const { status, body } = this.#answer(action, input, request, fault);
    if (fault === 'lost') return void request.socket.destroy();
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1', 'x-amzn-requestid': 'req-1' });
    response.end(JSON.stringify(body));
  }

  #answer(action: string, input: Input, request: IncomingMessage, fault: AwsFault | undefined) {
    try {
      failIfFaulty(fault, request);
      if (!String(request.headers.authorization).includes(`Credential=${this.accessKeyId}/`))
        throw new Refused(
          'UnrecognizedClientException',
          'The security token included in the request is invalid.',
        );
      return { status: 200, body: this.#act(action, input) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { status: error.status, body: { __type: error.code, Message: error.message } };
    }
  }

  #act(action: string, input: Input): object {
    switch (action) {
      case 'CreateSecret':
        return this.#create(input);
      case 'GetSecretValue':
        return this.#get(input);
      case 'PutSecretValue':
        return this.#put(input);
      case 'UpdateSecretVersionStage':
        return this.#moveStage(input);
      case 'DeleteSecret':
        return this.#delete(input);
      case 'ListSecrets':
        return this.#list(input);
      default:
        throw new Refused('UnknownOperationException', '');
    }
  }

  #create({ Name = '', SecretString = '', ClientRequestToken = '' }: Input): object {
    check(namePattern.test(Name), 'Name');
    checkVersion(ClientRequestToken, SecretString);
    const existing = this.#findIfThere(Name);
    if (existing === undefined) {
      const first = { value: SecretString, stages: new Set(['AWSCURRENT']) };
      this.#secrets.set(Name, { versions: new Map([[ClientRequestToken, first]]), goneAt: undefined });
    } else {
      checkRepeat(existing, ClientRequestToken, SecretString);
    }
    return { Name, VersionId: ClientRequestToken };
  }

  #get({ SecretId = '', VersionId, VersionStage = 'AWSCURRENT' }: Input): object {
    const { versions } = this.#usable(SecretId);
    const id = VersionId ?? holderOf(versions, VersionStage);
    const version = versions.get(id ?? '');
    if (version === undefined || id === undefined)
      throw new Refused(
        'ResourceNotFoundException',
        "Secrets Manager can't find the specified secret value.",
      );
    return { Name: SecretId, VersionId: id, SecretString: version.value, VersionStages: [...version.stages] };
  }

  #put(input: Input): object {
    const { SecretId = '', SecretString = '', ClientRequestToken = '' } = input;
    checkVersion(ClientRequestToken, SecretString);
    const { versions } = this.#usable(SecretId);
    const existing = versions.get(ClientRequestToken);
    if (existing !== undefined && existing.value !== SecretString)
      throw new Refused('ResourceExistsException', 'A version with that id exists and has another value.');
    if (existing === undefined)
      this.#addVersion(versions, ClientRequestToken, SecretString, input.VersionStages ?? ['AWSCURRENT']);
    return { Name: SecretId, VersionId: ClientRequestToken };
  }

  #addVersion(versions: Map<string, Version>, id: string, value: string, wanted: string[]): void {
    const stages = new Set(versions.size === 0 ? [...wanted, 'AWSCURRENT'] : wanted);
    const inUse = new Set([...versions.values()].flatMap((version) => [...version.stages]));
    if (inUse.union(stages).size > maxStages) throw new Refused('LimitExceededException', 'too many stages');
    versions.set(id, { value, stages: new Set() });
    for (const stage of stages) this.#attach(versions, stage, id);
  }

  #moveStage({ SecretId = '', VersionStage = '', RemoveFromVersionId, MoveToVersionId }: Input): object {
    const { versions } = this.#usable(SecretId);
    const holder = holderOf(versions, VersionStage);
    if (holder !== undefined && holder !== RemoveFromVersionId)
      throw new Refused(
        'InvalidParameterException',
        `The stage ${VersionStage} is attached to version ${holder}.`,
      );
    if (MoveToVersionId === undefined) versions.get(holder ?? '')?.stages.delete(VersionStage);
    else if (versions.has(MoveToVersionId)) this.#attach(versions, VersionStage, MoveToVersionId);
    else
      throw new Refused(
        'ResourceNotFoundException',
        "Secrets Manager can't find the specified secret version.",
      );
    return { Name: SecretId };
  }

  /** Each stage is on one version at most; what loses AWSCURRENT becomes AWSPREVIOUS. */
  #attach(versions: Map<string, Version>, stage: string, to: string): void {
    const from = holderOf(versions, stage);
    if (from === to) return;
    if (from !== undefined) versions.get(from)?.stages.delete(stage);
    versions.get(to)?.stages.add(stage);
    if (stage === 'AWSCURRENT' && from !== undefined) this.#attach(versions, 'AWSPREVIOUS', from);
    if (!this.removesVersionsAtOnce) return;
    for (const [id, { stages }] of versions) if (stages.size === 0) versions.delete(id);
  }

  #delete({ SecretId = '', ForceDeleteWithoutRecovery = false }: Input): object {
    const secret = this.#findIfThere(SecretId);
    if (secret !== undefined)
      secret.goneAt = ForceDeleteWithoutRecovery
        ? performance.now() + this.removalMs
        : Number.POSITIVE_INFINITY;
    else if (!ForceDeleteWithoutRecovery) this.#find(SecretId);
    return { Name: SecretId };
  }

  #list({ Filters = [], MaxResults = 100, NextToken = '0' }: Input): object {
    const prefixes = Filters.flatMap(({ Key, Values }) => (Key === 'name' ? Values : []));
    const names = [...this.#secrets]
      .filter(([name, { goneAt }]) => goneAt === undefined && !this.unlisted.has(name))
      .map(([name]) => name)
      .filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
    const from = Number(NextToken);
    const page = names.slice(from, from + MaxResults).map((Name) => ({ Name }));
    const isLast = from + MaxResults >= names.length;
    return { SecretList: page, ...(isLast ? {} : { NextToken: String(from + MaxResults) }) };
  }

  #usable(name: string): StoredSecret {
    const secret = this.#find(name);
    if (secret.goneAt === undefined) return secret;
    const message = "You can't perform this operation on the secret because it was marked for deletion.";
    throw new Refused('InvalidRequestException', message);
  }

  #find(name: string): StoredSecret {
    const secret = this.#findIfThere(name);
    if (secret !== undefined) return secret;
    throw new Refused('ResourceNotFoundException', "Secrets Manager can't find the specified secret.");
  }

  #findIfThere(name: string): StoredSecret | undefined {
    const secret = this.#secrets.get(name);
    const isGone = secret?.goneAt !== undefined && secret.goneAt <= performance.now();
    if (isGone) this.#secrets.delete(name);
    return isGone ? undefined : secret;
  }
}

function holderOf(versions: Map<string, Version>, stage: string): string | undefined {
  for (const [id, { stages }] of versions) if (stages.has(stage)) return id;
  return undefined;
}

/** The same secret may be created again with the same version id, which changes nothing. */
function checkRepeat({ versions, goneAt }: StoredSecret, version: string, value: string): void {
  const message =
    "You can't create this secret because a secret with this name is already scheduled for deletion.";
  if (goneAt !== undefined) throw new Refused('InvalidRequestException', message);
  if (versions.get(version)?.value !== value)
    throw new Refused('ResourceExistsException', 'The secret already exists.');
}

function check(isGood: boolean, what: string): void {
  if (!isGood) throw new Refused('ValidationException', `1 validation error detected: ${what}`);
}

function checkVersion(id: string, value: string): void {
  check(id.length >= 32 && id.length <= 64, 'ClientRequestToken');
  check(value.length >= 1 && Buffer.byteLength(value) <= 65_536, 'SecretString');
}

function failIfFaulty(fault: AwsFault | undefined, request: IncomingMessage): void {
  switch (fault) {
    case 'throttled':
      throw new Refused('ThrottlingException', 'Rate exceeded');
    case 'denied':
      throw new Refused(
        'AccessDeniedException',
        'User: arn:aws:iam::1:user/u is not authorized to perform it',
      );
    case 'broken':
      throw new Refused('InternalServiceError', 'An error occurred on the server side.', 500);
    case 'signature':
      // The service quotes the request, its session token included.
      throw new Refused(
        'InvalidSignatureException',
        `The Canonical String was ${JSON.stringify(request.headers)}`,
        403,
      );
    default:
  }
}
