/** What cookies hold: 32 random bytes in base64url. */
const value = '[\\w-]{43}';
/** Seconds that a person has to sign in at the issuer. */
const signInSeconds = 900;

/** The two cookies of the console: of a session, and of a sign-in that has begun. */
export interface Cookies {
  session: Cookie;
  signIn: Cookie;
}

interface Cookie {
  /** Its value in a Cookie header; undefined where it has none of the right form. */
  in(header: string | undefined): string | undefined;
  /** For Set-Cookie. `seconds`: how long it is kept; 0 deletes it. */
  set(text: string, seconds?: number): string;
}

/**
 * `isSecure`: the console is reached by https. Only then the name can have the prefix by which browsers let nobody but this very
 * host set the cookie; without https nobody but this machine reaches the console.
 */
export function createCookies(isSecure: boolean, sessionSeconds: number): Cookies {
  const cookie = (name: string, usualSeconds: number): Cookie => {
    const full = isSecure ? `__Host-${name}` : name;
    const pattern = new RegExp(`(?:^|;\\s*)${full}=(${value})(?=\\s*(?:;|$))`);
    const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
    return {
      in: (header) => (header === undefined ? undefined : pattern.exec(header)?.[1]),
      set: (text, seconds = usualSeconds) => `${full}=${text}; Max-Age=${Math.ceil(seconds)}; ${attributes}`,
    };
  };
  return { session: cookie('handoff', sessionSeconds), signIn: cookie('handoff-sign-in', signInSeconds) };
}
