import { Type } from 'typebox';

export const diningHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean(),
      reason: Type.Optional(
        Type.String({
          maxLength: 100,
          description: '`credentials`: the partner refuses those of the service.',
        }),
      ),
    },
    { description: 'The dining partner, where there is one.', examples: [{ connected: true }] },
  ),
);
