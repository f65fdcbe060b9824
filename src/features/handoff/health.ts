import { Type } from 'typebox';

const most = 2_147_483_647;

export const handoffHealth = Type.Object(
  {
    connected: Type.Boolean({ description: 'False where the database cannot be asked.' }),
    waiting: Type.Optional(
      Type.Integer({ minimum: 0, maximum: most, description: 'Accepted hand-offs that wait for the CRM.' }),
    ),
    oldest_seconds: Type.Optional(
      Type.Integer({ minimum: 0, maximum: most, description: 'How long the first of them has waited.' }),
    ),
  },
  {
    description: 'Hand-offs that were answered 202 and are not delivered yet.',
    examples: [{ connected: true, waiting: 0, oldest_seconds: 0 }],
  },
);
