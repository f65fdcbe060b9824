import { describeRoutes, documentedRoutes } from '../src/app/routes.ts';

interface Described {
  webhooks: Record<
    string,
    { post: { requestBody: { content: { 'application/json': { example: object } } } } }
  >;
}

const introduction = `
For partners: what each [event](events.md) looks like. The feed has events in this form, without \`timestamp\`;
[webhook endpoints](webhook-endpoints.md) get one as the body of each delivery. The values are examples; the OpenAPI document has the
same under \`webhooks\`.

- \`data\` is the resource as it was then; after a deletion only its id.
- Events of [test keys](test-keys.md) also have \`"mode": "test"\`.
- Where \`data\` would be longer than 256 KiB, it is \`{"id": "…"}\`, and \`data_omitted\` is true: read the resource.
- There may be more types and fields later: ignore those that you do not know.
`;

/** The page with an example of each type of event, as the OpenAPI document has them. */
export function eventPage(note: string): string {
  const { webhooks } = describeRoutes(documentedRoutes()) as Described;
  const parts = Object.entries(webhooks).map(([type, { post }]) => {
    const { example } = post.requestBody.content['application/json'];
    return `## \`${type}\`\n\n\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``;
  });
  return `${[note, '# Examples of events', introduction.trim(), ...parts].join('\n\n')}\n`;
}
