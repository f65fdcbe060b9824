/** What a request asks for, as faults, counters and waiting name it. */
export interface Operation {
  name: string;
  /** The object in the path, or the one that a query reads. */
  object?: string;
}

type ByMethod = Record<string, string>;

const OAUTH: Record<string, string> = { token: 'token', userinfo: 'userinfo', revoke: 'revoke' };
const BY_ID: ByMethod = { GET: 'read', HEAD: 'read', PATCH: 'update', DELETE: 'delete', POST: 'create' };
const BY_KEY: ByMethod = { GET: 'read', HEAD: 'read', PATCH: 'upsert', DELETE: 'delete' };
const ON_OBJECT: ByMethod = { POST: 'create', GET: 'objectBasics' };
const ON_COLLECTION: ByMethod = { POST: 'createMany', PATCH: 'updateMany', DELETE: 'deleteMany' };
const ON_TYPED_COLLECTION: ByMethod = { GET: 'readMany', POST: 'readMany', PATCH: 'upsertMany' };

function pick(table: ByMethod, method: string): string {
  return table[method] ?? 'unknown';
}

function sobjectOperation(method: string, path: string[]): Operation {
  const [, object, third, fourth] = path;
  if (object === undefined) return { name: 'describeGlobal' };
  if (third === undefined) return { name: pick(ON_OBJECT, method), object };
  if (fourth !== undefined) return { name: pick(BY_KEY, method), object };
  return { name: third === 'describe' ? 'describe' : pick(BY_ID, method), object };
}

function compositeOperation(method: string, path: string[]): Operation {
  const [, second, object] = path;
  if (second === undefined) return { name: 'composite' };
  if (second === 'batch') return { name: 'batch' };
  if (second !== 'sobjects') return { name: 'unknown' };
  if (object === undefined) return { name: pick(ON_COLLECTION, method) };
  return { name: pick(ON_TYPED_COLLECTION, method), object };
}

function queryOperation(path: string[], query: URLSearchParams): Operation {
  if (path[1] !== undefined) return { name: 'queryMore' };
  const object = /\bfrom\s+(\w+)/i.exec(query.get('q') ?? '')?.[1];
  return { name: path[0] === 'queryAll' ? 'queryAll' : 'query', ...(object === undefined ? {} : { object }) };
}

/** The operation of a data API call, from its method (after `_HttpMethod`) and its path after the version. */
export function dataOperation(method: string, path: string[], query: URLSearchParams): Operation {
  switch (path[0]) {
    case undefined:
      return { name: 'resources' };
    case 'sobjects':
      return sobjectOperation(method, path);
    case 'composite':
      return compositeOperation(method, path);
    case 'query':
    case 'queryAll':
      return queryOperation(path, query);
    default:
      return { name: path[0] === 'limits' ? 'limits' : 'unknown' };
  }
}

/** The operation of a call outside the data API. */
export function oauthOperation(pathname: string): Operation {
  if (pathname.startsWith('/id/')) return { name: 'identity' };
  return { name: OAUTH[pathname.replace('/services/oauth2/', '')] ?? 'unknown' };
}
