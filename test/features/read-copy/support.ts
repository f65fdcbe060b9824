import assert from 'node:assert/strict';
import { sql } from 'kysely';
import type { Database } from '../../../src/platform/store/database.ts';
import { eventually } from '../../support/eventually.ts';

type Request = (path: string, options?: { headers?: Record<string, string> }) => Promise<Response>;

/** An answer as a test compares it. */
export interface Answer {
  status: number;
  body: string;
  etag: string | null;
  /** Null where it is the CRM's. */
  age: number | null;
}

/** Settings of a gateway that keeps a copy and polls often. */
export const copyEnv = { COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' };

/** The copy of the resource is filled, and a poll that began now has come to its end. */
export async function keepNow(database: Database, resource: string): Promise<void> {
  await sql`update copy_state set places = null, kept_by_resource = jsonb_build_object(${resource}::text, now())`.execute(
    database.sql,
  );
}

export async function read(request: Request, path: string, cacheControl: string): Promise<Answer> {
  const response = await request(path, { headers: { 'cache-control': cacheControl } });
  const age = response.headers.get('age');
  return {
    status: response.status,
    body: await response.text(),
    etag: response.headers.get('etag'),
    age: age === null ? null : Number(age),
  };
}

/** Waits until the copy answers, and the answer passes. */
export async function untilCopied(
  request: Request,
  path: string,
  passes: (answer: Answer) => boolean = () => true,
): Promise<Answer> {
  return eventually(async () => {
    const answer = await read(request, path, 'max-age=60');
    // A problem document has no age.
    assert.ok((answer.age !== null || answer.status === 404) && passes(answer), JSON.stringify(answer));
    return answer;
  });
}

/** Every page of a list, the n-th from the n-th of `sources`; the items of all. */
export async function readPages(
  request: Request,
  path: string,
  sources: readonly ('copy' | 'crm')[],
): Promise<string[]> {
  const pages: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const source = sources[pages.length % sources.length];
    const join = path.includes('?') ? '&' : '?';
    const page: string = cursor === '' ? path : `${path}${join}cursor=${cursor}`;
    const answer = await read(request, page, source === 'copy' ? 'max-age=60' : 'no-cache');
    assert.equal(answer.status, 200, answer.body);
    assert.equal(answer.age !== null, source === 'copy', `${page} from the ${source}`);
    const { next_cursor } = JSON.parse(answer.body) as { next_cursor: string | null };
    pages.push(answer.body.replace(/,"next_cursor":[^]*$/, ''));
    cursor = next_cursor;
  }
  return pages;
}
