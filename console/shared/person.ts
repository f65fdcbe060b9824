import { useEffect, useState } from 'preact/hooks';

/** A person who has signed in, and the consumers that the person may act as. */
export interface PersonSession {
  person: { name: string; email: string | null };
  consumer: { id: string; name: string };
  consumers: { id: string; name: string }[];
  /** Tells the person apart from another one who signs in in another tab. */
  mark: string | null;
  /** When it ends unless it is used before. */
  expires_at: string;
}

/** What the service takes a session from; without the header it takes none for a write. */
const ofConsole = { headers: { 'x-handoff-session': '1' }, cache: 'no-store' } as const;
const timeoutMs = 10_000;

/** The session of this browser; undefined where there is none, or the service cannot be reached. */
export async function readPersonSession(): Promise<PersonSession | undefined> {
  try {
    const response = await fetch('/console/session', {
      ...ofConsole,
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (!response.ok) return undefined;
    const session = (await response.json()) as Omit<PersonSession, 'mark'>;
    return { ...session, mark: response.headers.get('x-handoff-person') };
  } catch {
    return undefined;
  }
}

/** Where the tab keeps the address within the console, while the person is away to sign in. */
const addressKey = 'handoff.address';

/** Leaves the page for the sign-in of the company. */
export function beginSignIn(): void {
  sessionStorage.setItem(addressKey, location.hash);
  location.assign('/console/sign-in');
}

/** Shows the page from which the person left to sign in. */
export function returnFromSignIn(): void {
  const address = sessionStorage.getItem(addressKey);
  sessionStorage.removeItem(addressKey);
  if (address && location.hash === '') location.replace(address);
}

/** Another tab may have changed the session since: the service refuses what this one would do to somebody else's. */
function shownBy({ mark, consumer }: PersonSession): Record<string, string> {
  return { ...(mark !== null && { 'x-handoff-person': mark }), 'x-handoff-consumer': consumer.id };
}

/** Acts as another consumer; the page is loaded again with what that one may do. Resolves to why the service didn't change it. */
export async function actAs(consumerId: string, shown: PersonSession): Promise<string | undefined> {
  const response = await fetch('/console/session', {
    ...ofConsole,
    method: 'POST',
    headers: { ...ofConsole.headers, ...shownBy(shown), 'content-type': 'application/json' },
    body: JSON.stringify({ consumer_id: consumerId }),
    signal: AbortSignal.timeout(timeoutMs),
  }).catch(() => undefined);
  if (response?.ok) {
    location.replace('/console/');
    return undefined;
  }
  const problem = (await response?.json().catch(() => undefined)) as { detail?: string } | undefined;
  return problem?.detail ?? "The gateway couldn't switch. Try again.";
}

/** Ends the session; resolves to the page of the company that ends it there, null where there is none, or the session is somebody else's. */
export async function signOutPerson(shown: PersonSession): Promise<string | null> {
  try {
    const response = await fetch('/console/sign-out', {
      ...ofConsole,
      method: 'POST',
      headers: { ...ofConsole.headers, ...shownBy(shown) },
      signal: AbortSignal.timeout(timeoutMs),
    });
    const { end_session_url = null } = (await response.json()) as { end_session_url?: string | null };
    return end_session_url;
  } catch {
    return null;
  }
}

const warnedMs = 60_000;

/**
 * Seconds until the person is signed out for doing nothing in any tab, from a minute before; undefined while there is more time.
 * What the page asks by itself is no use of it.
 */
export function useIdleEnd(session: PersonSession | undefined, end: () => void): number | undefined {
  const [left, setLeft] = useState<number | undefined>();
  useEffect(() => {
    if (session === undefined) return undefined;
    const idleMs = Math.max(1000, Date.parse(session.expires_at) - Date.now());
    let usedAt = Date.now();
    let keptAt = usedAt;
    // The session is that of the browser, whichever tab is used.
    const tabs = new BroadcastChannel('use');
    tabs.addEventListener('message', () => {
      usedAt = Date.now();
    });
    const use = () => {
      usedAt = Date.now();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has only one origin
      tabs.postMessage(null);
      if (usedAt - keptAt < idleMs / 4) return;
      keptAt = usedAt;
      void readPersonSession();
    };
    const timer = setInterval(() => {
      const ms = usedAt + idleMs - Date.now();
      setLeft(ms <= Math.min(warnedMs, idleMs / 2) ? Math.max(0, Math.ceil(ms / 1000)) : undefined);
      if (ms > 0) return;
      clearInterval(timer);
      end();
    }, 500);
    for (const name of ['pointerdown', 'keydown']) addEventListener(name, use, true);
    return () => {
      clearInterval(timer);
      tabs.close();
      for (const name of ['pointerdown', 'keydown']) removeEventListener(name, use, true);
    };
  }, [session]);
  return left;
}
