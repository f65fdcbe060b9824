import { Type } from 'typebox';

const most = 2_147_483_647;

export const changesHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean({
        description: 'False where changes were not read for too long, or not all of them yet.',
      }),
      seconds_behind: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0, maximum: most }), Type.Null()], {
          description: 'How long ago they were read; null until all were read once.',
        }),
      ),
      deletions_missed: Type.Optional(
        Type.Boolean({ description: 'True for 30 days after deletions may have been missed; else absent.' }),
      ),
    },
    {
      description: 'Changes of the CRM, where they are read.',
      examples: [{ connected: true, seconds_behind: 3 }],
    },
  ),
);
