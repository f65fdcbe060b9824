import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { generatedOpenApi } from '../../scripts/generate-openapi.ts';
import { freePort } from '../support/ports.ts';

const program = join(import.meta.dirname, '../../node_modules/.bin/prism');

/** Prism as a proxy that compares each answer with the document, and says in a header what does not fit. */
export interface Prism {
  url: string;
  stop(): Promise<void>;
}

export async function startPrism(upstream: string): Promise<Prism> {
  const folder = await mkdtemp(join(tmpdir(), 'handoff-prism-'));
  const document = join(folder, 'openapi.json');
  await writeFile(document, JSON.stringify(close(JSON.parse(generatedOpenApi()))));
  const port = await freePort();
  const child = spawn(process.execPath, [program, 'proxy', document, upstream, '-p', String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const listening = Promise.withResolvers<void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.includes('Prism is listening')) listening.resolve();
  });
  child.once('exit', (code) => listening.reject(new Error(`Prism ended with ${code}`)));
  await listening.promise;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.kill();
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

interface Violation {
  location: string[];
  severity: string;
  message: string;
}

/**
 * Fails where an answer does not fit the document, undeclared statuses, headers and members included, or where the
 * service accepted a request that does not.
 */
export function assertFits(response: Response, what: string): void {
  const violations = JSON.parse(response.headers.get('sl-violations') ?? '[]') as Violation[];
  const counted = violations.filter(({ location }) => location[0] !== 'request' || response.status < 400);
  assert.deepEqual(counted, [], `${what} ${response.status}`);
  assert.ok(response.headers.has('x-request-id'), `${what}: ${response.status} is Prism's own answer`);
}

/** The document as the service of today keeps it: with no member and no value beyond those that are named. */
function close(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(close);
  if (typeof node !== 'object' || node === null) return node;
  const entries = Object.entries(node).map(([key, value]) => [
    key,
    /^examples?$/.test(key) ? value : close(value),
  ]);
  const closed = Object.fromEntries(entries) as Record<string, unknown>;
  const { 'x-extensible-enum': known, type } = closed as { 'x-extensible-enum'?: unknown[]; type?: unknown };
  if (known) closed['enum'] = [type].flat().includes('null') ? [...known, null] : known;
  if (closed['properties'] && type !== undefined) closed['additionalProperties'] ??= false;
  return closed;
}
