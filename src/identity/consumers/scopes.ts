import type { Consumer } from './consumer.ts';

/** A person who has signed in at the company's provider. */
export interface Person {
  /** Of the provider, who the person is: it never changes. */
  subject: string;
  /** As records and lists name the person. */
  actor: string;
}

/** A consumer as one request acts for it: with all its permissions, or with those that a token is for. */
export interface Caller extends Consumer {
  /** Of a token, `quotes:read` and the like; undefined where the request came with the pair. */
  scopes?: ReadonlySet<string>;
  /** Who acts as the consumer, proven; undefined where the request came with credentials of the consumer. */
  person?: Person;
}

/** A permission on one action as OAuth names it. */
function scopeOf(resource: string, action: string): string {
  return `${resource}:${action}`;
}

/** All scopes of the consumer, in a fixed order. */
export function scopesOf({ permissions }: Pick<Consumer, 'permissions'>): string[] {
  return permissions.flatMap(({ resource, actions }) => actions.map((action) => scopeOf(resource, action)));
}

/**
 * The consumer with no more than these scopes. Each permission keeps whatever else it says, and stays without actions where
 * no scope is on it: that a consumer sees only its own records also counts for resources on which it may do nothing.
 */
export function withinScopes(consumer: Consumer, scopes: ReadonlySet<string>): Caller {
  const permissions = consumer.permissions.map((permission) => ({
    ...permission,
    actions: permission.actions.filter((action) => scopes.has(scopeOf(permission.resource, action))),
  }));
  return { ...consumer, permissions, unknownPermissions: [], scopes };
}
