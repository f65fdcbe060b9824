import { randomBytes } from 'node:crypto';
import { SignJWT } from 'jose';

export interface Session {
  token: string;
  expiresAt: number;
}

export interface Sessions {
  issue(): Promise<Session>;
  /** True for a live token; using it may extend it. */
  use(token: string): boolean;
  revoke(token: string): boolean;
  revokeAll(): number;
  count(): number;
}

export interface SessionOptions {
  orgId: string;
  userId: string;
  format: 'opaque' | 'jwt';
  /** Read on each use, so that a setting changed at run time holds at once. */
  lifetimeSeconds(): number;
  issuer(): string;
  clientId: string;
}

const MAX_SESSIONS = 10_000;

/** Opaque tokens start with the organization's id and `!`, as the token answers in circulation show. */
function opaqueToken(orgId: string): string {
  return `${orgId.slice(0, 15)}!AR${randomBytes(70).toString('base64url')}`;
}

/**
 * The live access tokens, in memory only: a restart ends them all, as the end of an org's session would.
 * Opaque tokens follow an idle timeout that slides, but only use in the second half of the window extends it;
 * JWT tokens end when they say (Connected App Session Policies).
 */
export function createSessions(options: SessionOptions): Sessions {
  const sessions = new Map<string, Session>();
  const key = randomBytes(32);

  const signToken = (expiresAt: number): Promise<string> =>
    new SignJWT({ client_id: options.clientId, scp: 'id api' })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(options.issuer())
      .setSubject(`uid:${options.userId}`)
      .setJti(randomBytes(16).toString('hex'))
      .setIssuedAt()
      .setExpirationTime(Math.floor(expiresAt / 1000))
      .sign(key);

  const extend = (session: Session, now: number): void => {
    const lifetime = options.lifetimeSeconds() * 1000;
    if (options.format === 'opaque' && session.expiresAt - now <= lifetime / 2)
      session.expiresAt = now + lifetime;
  };

  return {
    issue: async () => {
      const expiresAt = Date.now() + options.lifetimeSeconds() * 1000;
      const token = options.format === 'jwt' ? await signToken(expiresAt) : opaqueToken(options.orgId);
      const oldest = sessions.keys().next().value;
      if (sessions.size >= MAX_SESSIONS && oldest !== undefined) sessions.delete(oldest);
      const session = { token, expiresAt };
      sessions.set(token, session);
      return session;
    },
    use: (token) => {
      const session = sessions.get(token);
      if (session === undefined) return false;
      const now = Date.now();
      if (session.expiresAt <= now) return !sessions.delete(token);
      extend(session, now);
      return true;
    },
    revoke: (token) => sessions.delete(token),
    revokeAll: () => {
      const { size } = sessions;
      sessions.clear();
      return size;
    },
    count: () => sessions.size,
  };
}
