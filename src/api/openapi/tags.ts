/** What the operations are grouped by, in the order of the documentation. */
export const tags = {
  'Hand-off': 'The chosen search result becomes a quote or a booking in the CRM, in one call.',
  members: 'Members are contacts of the CRM; they can be read and not changed.',
  quotes: 'Quotes of the CRM, known by their External ID.',
  bookings: 'Bookings of the CRM, known by their External ID.',
  reservations: 'Tables at a dining partner, each with its booking in the CRM: both or neither.',
  Webhooks: 'What others tell the service, signed.',
  Administration: 'Consumers and their credentials, and who tried to authenticate.',
  Operations: 'Health of the service and its documentation, without credentials.',
} as const;

export type Tag = keyof typeof tags;
