export interface Permission {
  resource: string;
  actions: string[];
  records?: string;
  approval?: boolean | undefined;
  fields?: string[] | undefined;
}

const list = new Intl.ListFormat('en-GB');

/** `quotes, bookings and members`. */
export function listOf(words: readonly string[]): string {
  return list.format(words);
}

/** A line for each set of resources: `Read and write quotes and bookings (only its own, with approval)`. */
export function inWords(permissions: readonly Permission[]): string[] {
  const alike = Map.groupBy(permissions, ({ actions: allowed, ...permission }) =>
    JSON.stringify([allowed, boundsOf(permission)]),
  );
  return [...alike.values()].map((group) => {
    const [{ actions: allowed, ...first }] = group as [Permission];
    const bounds = boundsOf(first);
    const what = `${listOf(allowed)} ${listOf(group.map(({ resource }) => resource))}`;
    const text = what.charAt(0).toUpperCase() + what.slice(1);
    return bounds.length > 0 ? `${text} (${bounds.join(', ')})` : text;
  });
}

function boundsOf({ records, approval, fields }: Omit<Permission, 'actions'>): string[] {
  return [
    ...(records === 'own' ? ['only its own'] : []),
    ...(approval ? ['with approval'] : []),
    ...(fields ? [`only ${listOf(fields) || 'the ID'}`] : []),
  ];
}
