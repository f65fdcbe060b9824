import type { Guess, Proposal, ProposedResource } from './propose.ts';

/** The proposal as a mapping file, with the reason of each guess beside it. */
export function formatProposal(proposal: Proposal): string {
  const lines = [
    '# Proposed by `handoff org map` from what the org has: look at each line, then run',
    '# `handoff org check --mapping` with this file.',
    'version: 1',
    'resources:',
  ];
  const found = Object.entries(proposal).filter(([, proposed]) => proposed !== undefined);
  if (found.length === 0) lines[lines.length - 1] = 'resources: {}';
  for (const [name, proposed] of Object.entries(proposal)) {
    if (proposed === undefined)
      lines.push(`  # ${name}: no object of the org looks like it; \`handoff org package\` writes one.`);
    else lines.push(...resourceLines(name, proposed));
  }
  return `${lines.join('\n')}\n`;
}

function resourceLines(name: string, { object, fields, set, add }: ProposedResource): string[] {
  return [
    `  ${name}:`,
    `    object: ${withReason(object)}`,
    '    fields:',
    ...Object.entries(fields).map(([field, guess]) => `      ${field}: ${withReason(guess)}`),
    ...section('    set:', set),
    ...suggestions(add),
  ];
}

function section(title: string, guesses: Record<string, Guess<unknown>>): string[] {
  const entries = Object.entries(guesses);
  return entries.length === 0
    ? []
    : [title, ...entries.map(([name, guess]) => `      ${name}: ${withReason(guess)}`)];
}

/** JSON is YAML; names of the org need no quotes. */
function withReason({ value, why }: Guess<unknown>): string {
  const isName = typeof value === 'string' && /^(?!(true|false|null)$)[A-Za-z]\w*$/i.test(value);
  const list = Array.isArray(value) ? `[${value.join(', ')}]` : undefined;
  return `${isName ? value : (list ?? JSON.stringify(value))} # ${why}`;
}

function suggestions(add: Record<string, string>): string[] {
  const entries = Object.entries(add);
  if (entries.length === 0) return [];
  return [
    '    # Further fields that the API can have: take the # away from those that partners may see or write.',
    '    # add:',
    ...entries.map(([name, field]) => `    #   ${name}: { field: ${field}, access: read }`),
  ];
}
