import { type ConsumerName, consumers, type Stage } from '../stage.ts';
import type { Action } from './writes.ts';

export type Right = 'write' | 'delete';

const mostTries = 40;

/** Somebody may not write or delete records for a while. */
export const limitRights: Action = async (stage, random) => {
  const as = random.pick(['desk', 'agent'] as const);
  if (stage.limited.has(as)) return;
  stage.limited.add(as);
  const without = random.pick<Right[]>([['write'], ['delete'], ['write', 'delete']]);
  stage.journal.note(`${as} loses ${without.join(' and ')}: ${await allow(stage, as, without)}`);
  await stage.world.pause(random.between(300, 6000));
  stage.journal.note(`${as} gets its rights back: ${await allow(stage, as, [])}`);
  stage.limited.delete(as);
};

/** Gives somebody all its rights but some, by the boss; the last status of the answers. */
export async function allow(
  { client, credentials, world }: Stage,
  as: ConsumerName,
  without: readonly Right[],
): Promise<number | undefined> {
  const permissions = consumers[as].map((permission) =>
    permission.resource === 'webhooks'
      ? permission
      : {
          ...permission,
          actions: permission.actions.filter((action) => !without.some((one) => one === action)),
        },
  );
  const path = `/v1/admin/consumers/${credentials[as].id}`;
  const body = JSON.stringify({ permissions });
  let status: number | undefined;
  for (let tries = 0; status !== 200 && tries < mostTries; tries++) {
    if (tries > 0) await world.pause(1000);
    status = (await client.send({ method: 'PATCH', path, as: 'boss', body }))?.status;
  }
  return status;
}
