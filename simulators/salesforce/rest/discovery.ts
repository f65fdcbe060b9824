import type { ApiAnswer, ApiCall, ApiContext } from './api-call.ts';
import { pickMethod } from './api-call.ts';

const OLDEST = 20;
const NEWEST = 68;

/** Three releases a year, counted from v20.0, Winter '11. */
function versionLabel(version: number): string {
  const season = ['Winter', 'Spring', 'Summer'][(version - OLDEST) % 3] ?? '';
  return `${season} '${11 + Math.floor((version - OLDEST) / 3)}`;
}

/** True for `v20.0` to `v68.0`. */
export function isVersion(segment: string): boolean {
  const version = Number(/^v(\d{2})\.0$/.exec(segment)?.[1]);
  return version >= OLDEST && version <= NEWEST;
}

/** `GET /services/data`, oldest first; needs no token and is not metered. */
export function listVersions(): object[] {
  return Array.from({ length: NEWEST - OLDEST + 1 }, (_, index) => {
    const version = OLDEST + index;
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
