import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFreshness } from '../../src/api/pipeline/request-head.ts';

for (const [header, seconds] of [
  [undefined, undefined],
  ['', undefined],
  ['no-store', undefined],
  ['max-age=60', 60],
  ['Max-Age = "60", no-transform', 60],
  ['max-age=60, max-age=30', 30],
  ['max-age=60, no-cache', 0],
  ['no-cache', 0],
  ['no-cache="set-cookie"', 0],
  ['max-age', 0],
  ['max-age=', 0],
  ['max-age=-1', 0],
  ['max-age=1.5', 0],
  ['max-age=soon', 0],
  ['x-max-age=5', undefined],
  ['max-age=99999999999999999999', 2 ** 31],
] as const) {
  test(`Cache-Control: ${header} takes an answer of ${seconds} seconds`, () => {
    const headers = header === undefined ? {} : { 'cache-control': header };
    assert.equal(readFreshness(headers).maxAgeSeconds, seconds);
  });
}

for (const [header, maxAgeSeconds, staleIfErrorSeconds] of [
  ['stale-if-error=60', undefined, 60],
  ['max-age=5, Stale-If-Error="60"', 5, 60],
  ['no-cache, stale-if-error=60, stale-if-error=30', 0, 30],
  ['stale-if-error', undefined, undefined],
  ['stale-if-error=soon', undefined, undefined],
] as const) {
  test(`Cache-Control: ${header} takes an answer of ${staleIfErrorSeconds} seconds where the CRM fails`, () => {
    assert.deepEqual(readFreshness({ 'cache-control': header }), { maxAgeSeconds, staleIfErrorSeconds });
  });
}
