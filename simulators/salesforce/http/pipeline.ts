import { setTimeout as delay } from 'node:timers/promises';
import type { StruckFault } from '../../shared/armed-faults.ts';
import { type HttpAnswer, type HttpCall, jsonAnswer } from '../../shared/exchange.ts';
import type { FaultEffect, FaultInput, FaultKind } from '../control/fault-input.ts';
import type { FaultSubject, FaultTarget } from '../control/fault-matching.ts';
import type { Faults } from '../control/faults.ts';
import type { Gate } from '../control/gate.ts';
import type { Settings } from '../control/settings.ts';
import { edgeAnswer } from '../exchange.ts';
import { OAuthError } from '../oauth/assertion.ts';
import { handleOAuth, type OAuthContext, oauthErrorAnswer } from '../oauth/endpoints.ts';
import type { Sessions } from '../oauth/sessions.ts';
import { ApiError } from '../org/api-error.ts';
import type { ApiAnswer, ApiCall, ApiContext } from '../rest/api-call.ts';
import { listVersions } from '../rest/discovery.ts';
import {
  checkDailyLimit,
  checkSession,
  concurrentLimitError,
  dailyLimitError,
  dataPath,
  isDataPath,
  limitInfo,
  runDataCall,
  toApiCall,
} from './data-endpoint.ts';
import { dataOperation, type Operation, oauthOperation } from './operation.ts';
import { isRecordPath, recordPage } from './record-page.ts';

export interface Pipeline {
  /** The answer to a call; undefined where none may be given and the connection must break. */
  answer(call: HttpCall, operation: Operation): Promise<HttpAnswer | undefined>;
  /** Whether a call with this text in its body has yet to take effect, even if its caller has given it up. */
  isDelaying(text: string): boolean;
}

export interface PipelineParts {
  api: ApiContext;
  oauth: OAuthContext;
  sessions: Sessions;
  faults: Faults;
  gate: Gate;
  settings: Settings;
  charge(calls: number): void;
  /** Ends every wait when the simulator closes. */
  closing: AbortSignal;
}

type Work = () => Promise<HttpAnswer>;

/** Faults of the network before the service: they strike before a token is looked at. */
const EDGE: ReadonlySet<FaultKind> = new Set(['down', 'hang', 'reset']);
/** Faults in place of the call or around it. */
const AROUND: ReadonlySet<FaultKind> = new Set(['error', 'hold', 'loseAnswer', 'lateAnswer']);
const LATE: ReadonlySet<FaultKind> = new Set(['lateCommit']);
const TOKEN_AROUND: ReadonlySet<FaultKind> = new Set([...AROUND, 'tokenError']);
const DATA_AROUND: ReadonlySet<FaultKind> = new Set([...AROUND, 'dailyLimit', 'concurrentLimit']);

/** More than this many calls that run for 20 s make an org refuse new ones (API Request Limits and Allocations). */
const MAX_LONG_RUNNING = 25;
const LONG_RUNNING_MS = 20_000;

/** What a call asks for, however badly it is formed. */
export function operationOf(call: HttpCall): Operation {
  if (isRecordPath(call.pathname)) return { name: 'recordPage' };
  if (!isDataPath(call.pathname)) return oauthOperation(call.pathname);
  try {
    const [version, ...path] = dataPath(call.pathname);
    if (version === undefined) return { name: 'versions' };
    return dataOperation(call.method, path, call.query);
  } catch {
    return { name: 'unknown' };
  }
}

function decodedPath(call: HttpCall): string {
  const query = [...call.query].map(([name, value]) => `${name}=${value}`).join('&');
  try {
    return `${decodeURIComponent(call.pathname)}?${query}`;
  } catch {
    return `${call.pathname}?${query}`;
  }
}

/** Path and body are made only when a fault is armed that asks for them: most calls meet none. */
function toSubject(call: HttpCall, operation: Operation): FaultSubject {
  return {
    method: call.method,
    operation: operation.name,
    object: operation.object,
    get path() {
      return decodedPath(call);
    },
    get body() {
      return call.body.toString('utf8');
    },
    get firstPart() {
      return operation.name === 'composite' ? firstPartOf(call) : undefined;
    },
  };
}

function firstPartOf(call: HttpCall): FaultTarget | undefined {
  try {
    const body = JSON.parse(call.body.toString('utf8')) as {
      compositeRequest: [{ method: string; url: string }];
    };
    const [{ method, url }] = body.compositeRequest;
    const { pathname, searchParams: query } = new URL(url, 'http://part');
    const { name, object } = operationOf({ ...call, method, pathname, query });
    return { method, path: decodedPath({ ...call, pathname, query }), operation: name, object };
  } catch {
    return undefined;
  }
}

function errorAnswer({ org }: ApiContext, error: unknown, more: Record<string, string>): HttpAnswer {
  if (error instanceof OAuthError) return oauthErrorAnswer(error);
  if (!(error instanceof ApiError)) throw error;
  return jsonAnswer(error.status, error.toBody(org.language), { ...more, ...error.headers });
}

/** What a fault answers in place of the call; undefined for those that let it run. */
function plannedAnswer(effect: FaultEffect): ApiError | OAuthError | HttpAnswer | undefined {
  switch (effect.kind) {
    case 'tokenError':
      return new OAuthError(effect.error, effect.description);
    case 'dailyLimit':
      return dailyLimitError();
    case 'concurrentLimit':
      return concurrentLimitError();
    case 'error':
      if (effect.contentType === undefined)
        return new ApiError(effect.status, effect.errorCode, effect.message);
      return { status: effect.status, headers: { 'Content-Type': effect.contentType }, body: effect.message };
    default:
      return undefined;
  }
}

function holdStage(effect: FaultEffect): 'before' | 'after' | undefined {
  return effect.kind === 'hold' ? (effect.stage ?? 'after') : undefined;
}

/** Gives what the work writes stamps from before, where such a fault is armed. */
function committedLate({ api, faults }: PipelineParts, subject: FaultSubject, work: () => ApiAnswer) {
  const effect = faults.strike(subject, LATE)?.effect;
  api.org.lateMs = effect?.kind === 'lateCommit' ? effect.ms : 0;
  try {
    return work();
  } finally {
    api.org.lateMs = 0;
  }
}

function dataErrorAnswer(api: ApiContext, error: unknown): HttpAnswer {
  return errorAnswer(api, error, limitInfo(api));
}

/** With slow triggers the answer is delayed, while the records are written at once. */
async function runWithTriggers(
  parts: PipelineParts,
  call: ApiCall,
  subject: FaultSubject,
  pause: (ms: number) => Promise<unknown>,
): Promise<HttpAnswer> {
  const { api, faults } = parts;
  let delayMs = 0;
  const wrap = (work: () => ApiAnswer): ApiAnswer => {
    try {
      return faults.during(subject, () => committedLate(parts, subject, work));
    } finally {
      delayMs = api.org.automation.takeDelayMs();
    }
  };
  const answer = await runDataCall(api, call, wrap).catch((error: unknown) => dataErrorAnswer(api, error));
  await pause(delayMs);
  return answer;
}

/** Takes a call through the armed faults, the token check and the limits to its work. */
export function createPipeline(parts: PipelineParts): Pipeline {
  const { faults, settings, closing } = parts;
  const delayed = new Set<HttpCall>();
  const pause = (ms: number): Promise<unknown> =>
    ms > 0 ? delay(ms, undefined, { signal: closing }) : Promise.resolve();

  /** Runs the work with the fault around it; undefined when the answer is to be lost. */
  const runAround = async (
    struck: StruckFault<FaultInput> | undefined,
    work: Work,
  ): Promise<HttpAnswer | undefined> => {
    if (struck === undefined) return work();
    const planned = plannedAnswer(struck.effect);
    if (planned instanceof Error) throw planned;
    if (planned !== undefined) return planned;
    if (holdStage(struck.effect) === 'before') await struck.hold();
    const answer = await work();
    if (holdStage(struck.effect) === 'after') await struck.hold();
    if (struck.effect.kind === 'lateAnswer') await pause(struck.effect.ms);
    return struck.effect.kind === 'loseAnswer' ? undefined : answer;
  };

  const answerData = async (call: HttpCall, subject: FaultSubject): Promise<HttpAnswer | undefined> => {
    try {
      checkSession(parts.sessions, call);
      const struck = faults.strike(subject, DATA_AROUND);
      checkDailyLimit(parts.api);
      if (parts.gate.runningSince(LONG_RUNNING_MS) > MAX_LONG_RUNNING) throw concurrentLimitError();
      const apiCall = toApiCall(parts.api, call);
      parts.charge(1);
      return await runAround(struck, () => runWithTriggers(parts, apiCall, subject, pause));
    } catch (error) {
      return dataErrorAnswer(parts.api, error);
    }
  };

  const answerOther = async (call: HttpCall, subject: FaultSubject): Promise<HttpAnswer | undefined> => {
    try {
      const kinds = subject.operation === 'token' ? TOKEN_AROUND : AROUND;
      return await runAround(faults.strike(subject, kinds), async () => {
        if (subject.operation === 'versions') return jsonAnswer(200, listVersions(parts.api));
        if (subject.operation === 'recordPage') return recordPage(parts.api.org, call);
        return (await handleOAuth(parts.oauth, call)) ?? edgeAnswer(404, 'URL No Longer Exists');
      });
    } catch (error) {
      return errorAnswer(parts.api, error, {});
    }
  };

  return {
    answer: async (call, operation) => {
      const subject = toSubject(call, operation);
      const isData = isDataPath(call.pathname) && operation.name !== 'versions';
      delayed.add(call);
      await pause(faults.latency(subject) + (isData ? settings.latencyMs : 0));
      delayed.delete(call);
      const edge = faults.strike(subject, EDGE)?.effect.kind;
      if (edge === 'down') return edgeAnswer(503, 'Service Unavailable');
      if (edge === 'reset') return undefined;
      // Never settles: the caller's own timeout, or the end of the simulator, ends the connection.
      if (edge === 'hang') return new Promise<undefined>(() => undefined);
      return isData ? answerData(call, subject) : answerOther(call, subject);
    },
    isDelaying: (text) => [...delayed].some(({ body }) => body.includes(text)),
  };
}
