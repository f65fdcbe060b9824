/** The text of the details in a raw record of the CRM, over all its fields. */
export function detailsIn(record: Readonly<Record<string, unknown>>): string {
  const names = ['Details__c', ...[2, 3, 4, 5, 6, 7, 8].map((part) => `Details_${part}__c`)];
  return names.map((name) => (record[name] as string | null | undefined) ?? '').join('');
}
