/** What a request asks for, as faults, counters and waiting name it. */
export interface Operation {
  name: string;
  /** The object in the path, or the one that a query reads. */
  object?: string;
}

type ByMethod = Record<string, string>;

const OAUTH: Record<string, string> = { token: 'token', userinfo: 'userinfo', revoke: 'revoke' };
const BY_ID: ByMethod = { GET: 'read', HEAD: 'read', PATCH: 'update', DELETE: 'delete' };
const ON_OBJECT: ByMethod = { POST: 'create' };
const ON_COLLECTION: ByMethod = { POST: 'createMany', PATCH: 'updateMany', DELETE: 'deleteMany' };

function pick(table: ByMethod, method: string): string {
  return table[method] ?? 'unknown';
}

function sobjectOperation(method: string, path: string[]): Operation {
  const [, object, third] = path;
  if (object === undefined) return { name: 'describeGlobal' };
  if (third === undefined) return { name: pick(ON_OBJECT, method), object };
  return { name: third === 'describe' ? 'describe' : pick(BY_ID, method), object };
}

function compositeOperation(method: string, path: string[]): Operation {
  const [, second] = path;
  if (second === undefined) return { name: 'composite' };
  return { name: second === 'sobjects' ? pick(ON_COLLECTION, method) : 'unknown' };
}

function queryOperation(path: string[], query: URLSearchParams): Operation {
  if (path[1] !== undefined) return { name: 'queryMore' };
  const object = /\bfrom\s+(\w+)/i.exec(query.get('q') ?? '')?.[1];
  return { name: path[0] === 'queryAll' ? 'queryAll' : 'query', ...(object === undefined ? {} : { object }) };
}

/** The operation of a data API call, from its method and its path after the version. */
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
