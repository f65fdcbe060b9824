import { now } from '../../platform/base/chance.ts';
import type { Http } from '../../platform/http/http.ts';
import { CrmFailure } from '../failure.ts';
import { parseArray } from '../token/access-token.ts';
import { type CrmRequest, isMetered } from './request.ts';

/** When versions end, up to the given one: API End-of-Life Policy. A later version is announced a year ahead at least. */
const ends: readonly { upTo: number; end: string }[] = [
  { upTo: 20, end: 'retired since summer 2022' },
  { upTo: 30, end: 'retired since summer 2025' },
  { upTo: 40, end: 'not supported from summer 2027 on, retired in summer 2028' },
];

/** End of a version such as `38.0`; undefined while none is announced. */
export function endOf(version: string): string | undefined {
  return ends.find(({ upTo }) => Number(version) <= upTo)?.end;
}

/**
 * The versions that an org offers, oldest first (REST Developer Guide, Versions): without a token and not metered.
 * Undefined where the answer is another. Throws `HttpFailure`.
 */
export async function fetchVersions(
  http: Http,
  origin: string,
  timeoutMs: number,
): Promise<string[] | undefined> {
  const url = `${origin}/services/data`;
  const headers = { accept: 'application/json' };
  const answer = await http.exchange({ url, method: 'GET', headers, timeoutMs, maxBytes });
  if (answer.status !== 200) return undefined;
  const versions = parseArray(answer.body)?.flatMap((item) => {
    const { version } = (item ?? {}) as Record<string, unknown>;
    return typeof version === 'string' && /^\d{1,3}\.0$/.test(version) ? version : [];
  });
  return versions?.length ? versions : undefined;
}

const maxBytes = 256 * 1024;
const mostMs = 3000;

/** Milliseconds that an org's list of versions is believed; longer where a missing record may explain the refusal. */
const [believedMs, believedOfRecordsMs] = [2000, 30_000];

/**
 * Distinguishes a version that the org does not have, or no longer, from a record that is not there, which are both answered
 * 404: the org is asked what it offers.
 */
export class VersionCheck {
  readonly #options: { http: Http; apiVersion: string };
  #asked: { at: number; versions: Promise<string[] | undefined> } | undefined;

  constructor(options: { http: Http; apiVersion: string }) {
    this.#options = options;
  }

  async explain(failure: CrmFailure, request: CrmRequest, origin: string): Promise<CrmFailure> {
    const { apiVersion } = this.#options;
    const { status, error } = failure.facts;
    const isSuspect = status === 410 || (error?.code === 'NOT_FOUND' && status === 404);
    if (!isSuspect || !isMetered(request)) return failure;
    const versions = await this.#ask(origin, request.addressesRecord ? believedOfRecordsMs : believedMs);
    if (versions === undefined || versions.includes(apiVersion)) return failure;
    const advice = `The CRM doesn't offer version ${apiVersion} of its API, only ${versions[0]} to ${versions.at(-1)}. Ask its operator to set crm.apiVersion.`;
    return new CrmFailure('setup', advice, { ...failure.facts, ofOrg: [], advice, isOfVersion: true });
  }

  #ask(origin: string, maxAgeMs: number): Promise<string[] | undefined> {
    const asked = this.#asked;
    if (asked !== undefined && now() - asked.at < maxAgeMs) return asked.versions;
    const versions = fetchVersions(this.#options.http, origin, mostMs).catch(() => undefined);
    this.#asked = { at: now(), versions };
    return versions;
  }
}
