/**
 * Keyword of a schema that follows from another system and may change while the service runs: a function that gives the
 * schema as it is now, for the documentation. The value itself is checked where it is read.
 */
export const currentSchema = 'x-current-schema';

/** Keyword of a schema: examples of the documentation leave it out, since most requests and answers have none. */
export const noExample = 'x-no-example';
