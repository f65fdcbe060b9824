/** 32 random bytes in base64url. */
const secret = '[\\w-]{43}';
/** Sign-ins that one browser has begun, each in a tab of its own; of more, the oldest are forgotten. */
const mostBegun = 4;
/** Seconds that a person has to sign in at the issuer. */
const signInSeconds = 900;

export interface Cookies {
  session: Cookie<string>;
  signIn: Cookie<readonly string[]>;
}

interface Cookie<V> {
  /** Its value in a Cookie header; undefined where it has none of the right form. */
  in(header: string | undefined): V | undefined;
  /** For Set-Cookie; undefined deletes it. */
  set(value: V | undefined): string;
}

/**
 * `isSecure`: the console is reached by https. Only then the name can have the prefix by which browsers let nobody but this very
 * host set the cookie; without https nobody but this machine reaches the console.
 */
export function createCookies(isSecure: boolean, sessionSeconds: number): Cookies {
  const cookie = (name: string, value: string, seconds: number): Cookie<string> => {
    const full = isSecure ? `__Host-${name}` : name;
    const pattern = new RegExp(`(?:^|;\\s*)${full}=(${value})(?=\\s*(?:;|$))`);
    const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
    return {
      in: (header) => (header === undefined ? undefined : pattern.exec(header)?.[1]),
      set: (text) =>
        `${full}=${text ?? ''}; Max-Age=${text === undefined ? 0 : Math.ceil(seconds)}; ${attributes}`,
    };
  };
  const begun = cookie('handoff-sign-in', `${secret}(?:\\.${secret}){0,${mostBegun - 1}}`, signInSeconds);
  return {
    session: cookie('handoff', secret, sessionSeconds),
    signIn: {
      in: (header) => begun.in(header)?.split('.'),
      set: (all = []) => begun.set(all.slice(0, mostBegun).join('.') || undefined),
    },
  };
}
