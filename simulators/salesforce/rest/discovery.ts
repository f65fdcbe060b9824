import { ApiError, notFound } from '../org/api-error.ts';
import type { ApiAnswer, ApiCall, ApiContext } from './api-call.ts';
import { pickMethod } from './api-call.ts';

/** Versions 7 to 30 are retired (API End-of-Life Policy). */
const FIRST_EVER = 7;
const OLDEST = 31;

/** The newest version where the description names none. */
export const NEWEST = 68;

function offered({ description }: ApiContext['org']): { oldest: number; newest: number } {
  return { oldest: description.oldestVersion ?? OLDEST, newest: description.newestVersion ?? NEWEST };
}

/** Three releases a year, counted from v20.0, Winter '11. */
function versionLabel(version: number): string {
  const season = ['Winter', 'Spring', 'Summer'][(version - 20) % 3] ?? '';
  return `${season} '${11 + Math.floor((version - 20) / 3)}`;
}

/**
 * For the org's oldest version (`v31.0`) and later ones up to its newest.
 * @throws ApiError 410 for a retired version; 404 for one that is not there yet, or that is written in another way.
 */
export function checkVersion({ org }: ApiContext, segment: string): void {
  const version = Number(/^v(\d{1,2})\.0$/.exec(segment)?.[1]);
  const { oldest, newest } = offered(org);
  if (version >= oldest && version <= newest) return;
  if (version >= FIRST_EVER && version < oldest)
    throw new ApiError(410, 'UNSUPPORTED_API_VERSION', 'The requested API version is no longer supported.');
  throw notFound();
}

/** `GET /services/data`, oldest first; needs no token and is not metered. */
export function listVersions({ org }: ApiContext): object[] {
  const { oldest, newest } = offered(org);
  return Array.from({ length: newest - oldest + 1 }, (_, index) => {
    const version = oldest + index;
    return { label: versionLabel(version), url: `/services/data/v${version}.0`, version: `${version}.0` };
  });
}

/** `GET /services/data/vXX.X`: names of resources with their paths, and the identity URL in full. */
export function listResources(context: ApiContext, call: ApiCall): ApiAnswer {
  return pickMethod(call, {
    GET: () => {
      const names = ['sobjects', 'query', 'queryAll', 'composite', 'limits'];
      const paths = names.map((name): [string, string] => [name, `/services/data/${call.version}/${name}`]);
      const identity = `${context.baseUrl()}/id/${context.org.id}/${context.org.user.id}`;
      return { status: 200, body: Object.fromEntries([...paths, ['identity', identity]]) };
    },
  })();
}

export function showLimits(context: ApiContext, call: ApiCall): ApiAnswer {
  return pickMethod(call, {
    GET: () => {
      const { used, limit } = context.usage();
      return {
        status: 200,
        body: { DailyApiRequests: { Max: limit, Remaining: Math.max(0, limit - used) } },
      };
    },
  })();
}
