/**
 * How long one authentication takes with few and with many consumers loaded, in microseconds:
 *
 *     node bench/authentication.ts [consumers] [rounds]
 *
 * Prints JSON. Both directories live in one process and are asked in turn.
 */
import { createAccessTokens } from '../src/features/oauth/access-tokens.ts';
import { SigningKeys } from '../src/features/oauth/signing-keys.ts';
import { withTokens } from '../src/identity/consumers/authentication.ts';
import { activeCredential } from '../src/identity/consumers/consumer-store.ts';
import { createConsumers } from '../src/identity/consumers/consumers.ts';
import {
  type CredentialPair,
  consumerIdOf,
  makeConsumerId,
  makeCredentialPair,
} from '../src/identity/consumers/credentials.ts';
import type { ConsumerDirectory } from '../src/identity/consumers/directory.ts';
import { createLog } from '../src/platform/observability/log.ts';
import { createMetrics } from '../src/platform/observability/metrics.ts';
import type { SecretsManager } from '../src/platform/secrets/secrets-manager.ts';
import { difference, ratio, type Spread, spreadOf, spreadOfPairs } from './spread.ts';

export interface AuthenticationResult {
  rows: ({ consumers: number; 'µs each': Spread } & Record<string, unknown>)[];
  /** Microseconds of one check that accepts, with many consumers. */
  accepted: Spread;
}

const few = 10;
const [many = 100_000, rounds = 5] = process.argv.slice(2).map(Number);
const attempts = 50_000;
/** Credentials that are made before they are presented; few, as those of requests under way are. */
const atATime = 50;

function emptySecrets(): SecretsManager {
  const nothing = async () => undefined;
  return {
    kind: 'file',
    read: nothing,
    write: async () => 'version',
    delete: nothing,
    list: async () => [],
    watch: () => () => undefined,
    checkHealth: nothing,
    close: nothing,
  };
}

async function fill(count: number) {
  const options = {
    secrets: emptySecrets(),
    log: createLog('silent'),
    metrics: createMetrics(),
    refreshSeconds: 3600,
  };
  const { directory, authenticate, keys } = createConsumers(options);
  const { pepper } = await keys.load();
  const at = new Date().toISOString();
  const pairs = Array.from({ length: count }, () => {
    const id = makeConsumerId();
    const pair = makeCredentialPair(id);
    const credentials = [activeCredential(pair, pepper, at)];
    const permissions = [{ resource: 'quotes' as const, actions: ['read' as const] }];
    const dates = { createdAt: at, updatedAt: at, rotatedAt: null };
    directory.put(
      { id, name: 'x', permissions, ...dates, certificateFingerprints: [], credentials },
      'version',
    );
    return pair;
  });
  const tokens = await issueTokens(directory, pairs);
  return { count, authenticate: withTokens(authenticate, tokens.bearer), pairs, tokens: tokens.issued };
}

/** Tokens that the process remembers: as many as it does at most, each of another consumer. */
const maxTokens = 10_000;
const nothing = { apiKey: undefined, apiSecret: undefined };

async function issueTokens(directory: ConsumerDirectory, pairs: readonly CredentialPair[]) {
  const [publicUrl, clock] = [() => 'https://handoff.example.com', Date.now];
  const [log, environment] = [createLog('silent'), 'dev'];
  const keys = new SigningKeys({ secrets: emptySecrets(), environment, log, refreshSeconds: 3600, clock });
  await keys.start();
  const tokens = createAccessTokens({ keys, directory, publicUrl, clock });
  const issued: string[] = [];
  for (const { apiKey } of pairs.slice(0, maxTokens)) {
    const token = await tokens.issue(consumerIdOf(apiKey) as string, apiKey, 'quotes:read');
    // The first time its signature is verified; measured is what each request after that costs.
    await tokens.authenticate(token);
    issued.push(token);
  }
  const bearer = { authenticate: (token: string) => tokens.authenticate(token), metadataUrl: publicUrl };
  return { bearer, issued };
}

type Directory = Awaited<ReturnType<typeof fill>>;
type Presented = { apiKey: string | undefined; apiSecret: string | undefined; token?: string | undefined };

/** What is presented, and how it ends; all are answered from memory, without a promise. */
const cases: Record<string, { result: string; present(directory: Directory, i: number): Presented }> = {
  accepted: { result: 'accepted', present: ({ pairs }, i) => presented(pairs, i) },
  token: {
    result: 'accepted',
    present: ({ tokens }, i) => ({ ...nothing, token: tokens[(i * 7919) % tokens.length] }),
  },
  'wrong secret': {
    result: 'wrong_secret',
    present: ({ pairs }, i) => ({
      ...presented(pairs, i),
      apiSecret: presented(pairs, i + 1).apiSecret,
    }),
  },
  'unknown key': {
    result: 'unknown_key',
    present: ({ pairs }, i) => ({ ...presented(pairs, i), apiKey: 'hgk_x' }),
  },
};

/** In an order that no cache of the processor foresees. */
function presented(pairs: Directory['pairs'], i: number): Presented {
  return pairs[(i * 7919) % pairs.length] ?? nothing;
}

/** As a request brings them: texts just made from what came over the wire, not the ones that were given out. */
function copyOf(text: string | undefined): string | undefined {
  return text && Buffer.from(text, 'latin1').toString('latin1');
}

function microsecondsEach(directory: Directory, name: string): number {
  const { present, result } = cases[name] ?? { present: () => presented([], 0), result: '' };
  let took = 0;
  for (let done = 0; done < attempts; done += atATime) {
    const came = Array.from({ length: atATime }, (_, i) => {
      const { apiKey, apiSecret, token } = present(directory, done + i);
      return { apiKey: copyOf(apiKey), apiSecret: copyOf(apiSecret), token: copyOf(token) };
    });
    const start = performance.now();
    for (const credentials of came) {
      const answer = directory.authenticate(credentials);
      if (!('result' in answer) || answer.result !== result) throw new Error(`not ${result}`);
    }
    took += performance.now() - start;
  }
  return (took * 1000) / attempts;
}

const directories = [await fill(few), await fill(many)];
const times = new Map<string, number[]>();
for (let round = 0; round <= rounds; round++) {
  for (const name of Object.keys(cases)) {
    for (const directory of round % 2 === 0 ? directories : directories.toReversed()) {
      const each = microsecondsEach(directory, name);
      const key = `${directory.count} ${name}`;
      // The first round warms up.
      if (round > 0) times.set(key, [...(times.get(key) ?? []), each]);
    }
  }
}
const of = (count: number, name: string): number[] => times.get(`${count} ${name}`) ?? [];
const rows = Object.keys(cases).flatMap((name) =>
  [few, many].map((consumers) => ({
    credentials: name,
    consumers,
    'µs each': spreadOf(of(consumers, name)),
    'over a pair': spreadOfPairs(of(consumers, name), of(consumers, 'accepted'), ratio),
    [`over ${few} consumers`]: spreadOfPairs(of(consumers, name), of(few, name), ratio),
    'µs more': spreadOfPairs(of(consumers, name), of(few, name), difference),
  })),
);
const accepted = spreadOf(of(many, 'accepted'));
console.log(JSON.stringify({ rows, accepted } satisfies AuthenticationResult));
