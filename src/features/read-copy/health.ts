import { Type } from 'typebox';

const most = 2_147_483_647;

export const copyHealth = Type.Optional(
  Type.Object(
    {
      connected: Type.Boolean({ description: 'False where it is too old, or not filled yet.' }),
      age_seconds: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0, maximum: most }), Type.Null()], {
          description: 'How old the copy is; null until it is filled.',
        }),
      ),
      records: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: most,
          description: 'How many records it has, perhaps estimated.',
        }),
      ),
      filling: Type.Optional(Type.Boolean({ description: 'True while it is being filled; else absent.' })),
    },
    {
      description: "The copy of the CRM's records, where one is kept.",
      examples: [{ connected: true, age_seconds: 12, records: 21_456 }],
    },
  ),
);
