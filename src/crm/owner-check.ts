import type { Call } from '../platform/base/call.ts';
import { listOf, type Resources } from '../records/mapping.ts';
import type { OwnerRule } from '../records/resource.ts';
import { queryPath, readPage } from './batching/find.ts';
import { CrmFailure } from './rest/failure.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { queueQuery, type RowsQuery, toSoql, userQuery } from './soql/query.ts';

/** Kinds of failure by which the org says that the user may not ask. */
const refusals = ['setup', 'rejected', 'broken'];

/** Asks the org as the service does before it makes a record. */
export async function ownerFaults(
  resources: Resources,
  client: Pick<CrmClient, 'send' | 'dataPath'>,
  call: Call,
): Promise<string[]> {
  const faults: string[] = [];
  const read = async (query: RowsQuery, fault: string) => {
    const path = queryPath(client.dataPath, toSoql(query));
    try {
      const answer = await client.send({ operation: 'query', effect: 'read', method: 'GET', path }, call);
      return readPage(answer, client.dataPath).rows.length;
    } catch (error) {
      // What is answered to a caller names its cause.
      const { cause } = error as Error;
      if (!(cause instanceof CrmFailure && refusals.includes(cause.kind))) throw error;
      faults.push(fault);
      return undefined;
    }
  };
  for (const { match, else: other } of rulesOf(resources)) {
    const user = 'user' in (other ?? {}) ? (other as { user: string }).user : undefined;
    await read(
      userQuery(match, 'nobody'),
      `User.${match} cannot be read: give the integration user read on User, so that records get owners.`,
    );
    if (
      user !== undefined &&
      (await read(userQuery('Username', user), 'User.Username cannot be read.')) === 0
    )
      faults.push(`There is no active user ${user}, whom the mapping names as owner.`);
    if (other === undefined || !('queue' in other)) continue;
    const { queue } = other;
    const found = await read(
      queueQuery(queue),
      `Group cannot be read, so that the queue ${queue} is not found.`,
    );
    if (found === 0) faults.push(`There is no queue ${queue}, which the mapping names as owner.`);
  }
  return faults;
}

function rulesOf(resources: Resources): OwnerRule[] {
  const rules = listOf(resources).flatMap(({ owner }) => owner ?? []);
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}
