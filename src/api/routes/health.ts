import { type TSchema, Type } from 'typebox';
import { modeOf } from '../../platform/base/call.ts';
import type { ConnectionState, HealthReport } from '../../platform/observability/health.ts';
import { defineRoute, json, type Route } from '../route.ts';

const connection = (description: string) =>
  Type.Object({ connected: Type.Boolean() }, { description, additionalProperties: true });

const user = Type.Object(
  {
    Id: Type.String({ description: "The integration user's id in the CRM.", maxLength: 18 }),
    Name: Type.String({
      description: 'Display name of the integration user, not its user name.',
      maxLength: 255,
    }),
  },
  { additionalProperties: false },
);

const manyCalls = 2_147_483_647;

const quota = Type.Object(
  {
    used: Type.Integer({ description: "The org's calls in 24 hours.", minimum: 0, maximum: manyCalls }),
    limit: Type.Integer({ description: 'Calls it may make.', minimum: 0, maximum: manyCalls }),
    budget: Type.Optional(
      Type.Integer({
        description: 'Calls the gateway may make, where a budget is set.',
        minimum: 0,
        maximum: manyCalls,
      }),
    ),
    budget_used: Type.Optional(
      Type.Integer({
        description: 'Calls it made in 24 hours, on all replicas.',
        minimum: 0,
        maximum: manyCalls,
      }),
    ),
  },
  {
    description:
      'Use of the daily CRM call quota, as last reported to any replica. Before that: absent, or, where a budget is ' +
      "set, the gateway's own `used` and `limit`.",
    additionalProperties: false,
  },
);

const orgFault = Type.Object(
  {
    object: Type.String({ description: "The object's name in the CRM.", maxLength: 80 }),
    field: Type.Union([Type.String({ maxLength: 80 }), Type.Null()], {
      description: "The field's name in the CRM; null: the object itself.",
    }),
    problem: Type.String({ description: 'Explanation of the fault.', maxLength: 500 }),
  },
  { additionalProperties: false },
);

const platformEntries = {
  status: Type.Enum(['ok', 'unavailable'], { description: 'Whether the gateway can work.' }),
  crm: Type.Object({
    connected: Type.Boolean(),
    user: Type.Union([user, Type.Null()], {
      description: 'Null while not connected. Left out for test keys, although it is required here.',
    }),
    reason: Type.Optional(
      Type.Enum(['sign_in', 'data', 'version', 'network'], {
        description:
          "The part that doesn't work: signing in, all data calls, the API version, or the connection to the CRM; otherwise absent.",
      }),
    ),
    advice: Type.Optional(
      Type.String({
        description: 'Advice for the operator while the CRM refuses the gateway access; otherwise absent.',
        maxLength: 1000,
      }),
    ),
    sign_in: Type.Optional(
      Type.Object(
        {
          error: Type.String({ description: 'The error of the token endpoint.', maxLength: 60 }),
          error_description: Type.Union([Type.String({ maxLength: 300 }), Type.Null()], {
            description: "The org's explanation.",
          }),
        },
        {
          description: 'Why the org refused the last sign-in; otherwise absent.',
          additionalProperties: false,
        },
      ),
    ),
    lacks: Type.Optional(
      Type.Array(orgFault, {
        description:
          "Objects and fields that the org lacks or that don't fit; requests that don't need them still work. Otherwise absent.",
        maxItems: 1000,
      }),
    ),
    quota: Type.Optional(quota),
  }),
  secretsManager: connection('Where consumers and keys come from.'),
  database: connection('Where idempotency keys are remembered.'),
  cache: connection('Shared by all replicas, for speed.'),
};

const platformExample = {
  status: 'ok',
  crm: {
    connected: true,
    user: { Id: '0055g00000AbCdEAAV', Name: 'Handoff Gateway Integration' },
    quota: { used: 1806, limit: 150_000 },
  },
  secretsManager: { connected: true },
  database: { connected: true },
  cache: { connected: true },
};

function publicPart({ status, ...parts }: HealthReport, showsUser: boolean): HealthReport {
  const states = Object.entries(parts).map(([name, part]) => {
    const { connected, user: integrationUser } = part as ConnectionState;
    return [name, { connected, ...(name === 'crm' && showsUser && { user: integrationUser }) }];
  });
  return { status, ...(Object.fromEntries(states) as Record<string, ConnectionState>) };
}

export function healthRoute({
  health,
  entries,
}: {
  health: () => Promise<HealthReport>;
  entries: Readonly<Record<string, TSchema>>;
}): Route {
  const report = Type.Object(
    { ...platformEntries, ...entries },
    {
      // Typed, it would have to hold for `status` too in the languages that code is generated in.
      additionalProperties: true,
      title: 'Health',
    },
  );
  const examples = Object.entries(entries).map(([name, schema]) => [
    name,
    (schema as { examples?: unknown[] }).examples?.[0],
  ]);
  const example = { ...platformExample, ...(Object.fromEntries(examples) as object) };
  return defineRoute({
    method: 'GET',
    path: '/v1/healthz',
    operationId: 'getHealth',
    tag: 'Operations',
    summary: 'Connection state of the CRM and of everything else',
    description: "Answers 503 if and only if the CRM or the database isn't connected.",
    permission: {
      none: 'load balancers read it; it shows `status`, `connected` of each part and `crm.user`',
      showsMore:
        'also counts, ages, quotas, reasons and missing permissions; to test keys only `status` and `connected`',
    },
    idempotencyKey: 'ignored',
    request: {},
    answers: {
      200: { description: 'The gateway can work.', schema: report, example },
      503: {
        description: "The CRM or the database isn't connected.",
        schema: report,
        example: { ...example, status: 'unavailable', crm: { connected: false, user: null } },
      },
    },
    problems: [],
    async handle({ consumer }) {
      const found = await health();
      const isTest = modeOf(consumer?.id) === 'test';
      const shown = consumer === undefined || isTest ? publicPart(found, !isTest) : found;
      return json(found.status === 'ok' ? 200 : 503, shown);
    },
  });
}
