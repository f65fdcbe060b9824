const hourMs = 3_600_000;

/** How far back a list goes, in hours, as it stands in the address. */
export const periods: [hours: string, text: string][] = [
  ['', 'Any time'],
  ['1', 'Last hour'],
  ['24', 'Last 24 hours'],
  ['168', 'Last 7 days'],
];

/** The moment that a period begins now, for the API; empty for all time. */
export function sinceNow(hours: string): string {
  const length = Number(hours) * hourMs;
  return length > 0 ? new Date(Date.now() - length).toISOString() : '';
}
