import assert from 'node:assert/strict';

/** An id of the simulated org: key prefix, its instance, a running number; 15 or 18 characters. */
const nativeId = /[0-9A-Za-z]{3}5g0000[0-9A-Za-z]{6}/g;

interface Recorded {
  method: string;
  path: string;
  status: number;
  headers: string;
  body: Promise<string>;
}

/** Keeps every answer of a gateway, to look through all of them at the end. */
export interface AnswerRecorder {
  keep(method: string, path: string, response: Response): Response;
  /** Fails where an identifier of the CRM's own left the service outside the places that are for it. */
  assertNoNativeIds(): Promise<void>;
}

export function recordAnswers(): AnswerRecorder {
  const kept: Recorded[] = [];
  return {
    keep(method, path, response) {
      const headers = JSON.stringify([...response.headers]);
      // An answer that is cut off has nothing more to look at.
      const body = response
        .clone()
        .text()
        .catch(() => '');
      kept.push({ method, path, status: response.status, headers, body });
      return response;
    },
    async assertNoNativeIds() {
      const leaks: string[] = [];
      for (const { method, path, status, headers, body } of kept) {
        const found = findNativeIds(path, `${headers}\n${await body}`);
        if (found.length > 0) leaks.push(`${method} ${path} ${status}: ${found.join(', ')}`);
      }
      assert.deepEqual(leaks, [], 'native identifiers of the CRM left the service');
    },
  };
}

/**
 * Native ids in the text of an answer, but for `id` of a hand-off, made at once, accepted or of a trip, `crm.user.Id` of health,
 * and the documentation.
 */
export function findNativeIds(path: string, text: string): string[] {
  if (path.startsWith('/v1/docs')) return [];
  let rest = text;
  if (path.startsWith('/api/v1/handoffs')) rest = rest.replaceAll(/"id":"[0-9A-Za-z]{18}"/g, '');
  else if (path.startsWith('/api/v1/handoff')) rest = rest.replace(/"id":"[0-9A-Za-z]{18}"/, '');
  if (path.startsWith('/v1/handoffs')) rest = rest.replaceAll(/"id":"[0-9A-Za-z]{18}"/g, '');
  if (path.startsWith('/v1/healthz')) rest = rest.replace(/"Id":"[0-9A-Za-z]{18}"/, '');
  return rest.match(nativeId) ?? [];
}
