import type { Route } from '../../api/route.ts';

type Requests = ReadonlyMap<string, Pick<Route, 'method' | 'path'>>;

export type ToolWords = (text: string) => string;

const requests = /\b(GET|POST|PATCH|DELETE) (\/[\w/:{}-]*[\w}])/g;
/** Ends where white space and a capital letter follow, or with the text. */
const sentences = /[^\s].*?[.!?](?=\s+[A-Z`]|\s*$)|[^\s].*$/gs;

const replaced: readonly [RegExp, string][] = [
  [
    /^The (?:body|query|querystring|path|params|request)(?: string)? isn't valid/g,
    "The arguments aren't valid",
  ],
  [/\bThe body's "?(\w+)"?/g, 'The argument $1'],
  [/\bThe X-Actor header/g, 'The argument actor'],
  [/\bX-Actor\b/g, 'actor'],
  [/\bwith a new key\b/g, 'with another intent'],
  [/\bas GET shows it to the caller\b/g, 'as the caller sees it'],
  [/\bHTTP status\b/g, 'status'],
  [
    /\bthe same request with the same Idempotency-Key is safe to send again\b/g,
    'the same call is safe to repeat',
  ],
  [/\bSend the same request again\b/g, 'Make the same call again'],
  [/\bIdempotency-Key\b/g, 'intent'],
];

/**
 * The words for a caller who has these tools of all. A request becomes its tool; a sentence that names a tool that the caller has
 * not, or a request that is no tool, is left out.
 */
export function wordsFor(own: Requests, all: Requests): ToolWords {
  const others = [...all.keys()].filter((name) => !own.has(name));
  const foreign = others.length === 0 ? undefined : new RegExp(`\\b(?:${others.join('|')})\\b`);
  return (text) => {
    const named = text.replaceAll(requests, (request, method: string, path: string) => {
      return toolFor(all, method, path) ?? request;
    });
    const kept = (named.match(sentences) ?? []).filter(
      (sentence) => sentence.search(requests) < 0 && foreign?.test(sentence) !== true,
    );
    return replaced.reduce(
      (words, [from, to]) => words.replaceAll(from, to),
      kept.length > 0 ? kept.join(' ') : named,
    );
  };
}

function toolFor(tools: Requests, method: string, path: string): string | undefined {
  const parts = path.split('/');
  const fits = (pattern: string) => {
    const wanted = pattern.split('/');
    return (
      wanted.length === parts.length && wanted.every((part, i) => part.startsWith(':') || part === parts[i])
    );
  };
  const found = [...tools].find(([, route]) => route.method === method && fits(route.path));
  return found?.[0];
}
