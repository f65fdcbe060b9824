import type { Consumer } from './consumer.ts';

export interface Person {
  subject: string;
  actor: string;
}

export interface Caller extends Consumer {
  /** From a token, `quotes:read` and the like; undefined where the request came with the pair. */
  scopes?: ReadonlySet<string>;
  /** Proven; undefined where the request came with credentials of the consumer. */
  person?: Person;
}

function scopeOf(resource: string, action: string): string {
  return `${resource}:${action}`;
}

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
