import {
  type Guess,
  type Proposal,
  type ProposedField,
  type ProposedResource,
  requiredMapping,
} from './propose.ts';

export function formatProposal(proposal: Proposal): string {
  const lines = [
    "# Proposed by `handoff org map` from the org's objects and fields. Review each line, then run",
    '# `handoff org check --mapping` with this file.',
    'version: 1',
    'resources:',
  ];
  const found = Object.entries(proposal).filter(([, proposed]) => proposed !== undefined);
  if (found.length === 0) lines[lines.length - 1] = 'resources: {}';
  for (const [name, proposed] of Object.entries(proposal)) {
    if (proposed === undefined)
      lines.push(`  # ${name}: no object in the org looks like it; \`handoff org package\` creates one.`);
    else lines.push(...resourceLines(name, proposed));
  }
  return `${lines.join('\n')}\n`;
}

function resourceLines(name: string, { object, fields, add }: ProposedResource): string[] {
  return [
    `  ${name}:`,
    `    object: ${withReason(object)}`,
    '    fields:',
    ...Object.entries(fields).map(([field, guess]) => `      ${field}: ${withReason(guess)}`),
    ...furtherLines(add),
  ];
}

function withReason({ value, why }: Guess<unknown>): string {
  const isName = typeof value === 'string' && /^(?!(true|false|null)$)[A-Za-z]\w*$/i.test(value);
  const list = Array.isArray(value) ? `[${value.join(', ')}]` : undefined;
  return `${isName ? value : (list ?? JSON.stringify(value))} # ${why}`;
}

function furtherLines(add: readonly ProposedField[]): string[] {
  const required = add.filter(({ isRequired }) => isRequired);
  const others = add.filter(({ isRequired }) => !isRequired);
  const isOpen = required.length > 0;
  return [
    ...(isOpen
      ? ['    # The org requires these in new records, so callers have to send them.', '    add:']
      : []),
    ...required.map((field) => {
      const entries = Object.entries(requiredMapping(field)).map(([key, value]) => `${key}: ${value}`);
      return `      ${field.name}: { ${entries.join(', ')} } # required in new records; \`from\` is a guess`;
    }),
    ...(others.length === 0
      ? []
      : [
          '    # More fields that the API can have. Uncomment those that partners may see or write.',
          ...(isOpen ? [] : ['    # add:']),
          ...others.map(({ name, column }) => `    #   ${name}: { field: ${column}, access: read }`),
        ]),
  ];
}
