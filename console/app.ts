import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { NoPage } from './no-page.ts';
import { allowedPages, findPage } from './pages.ts';
import { PersonStrip, Who } from './person-bar.ts';
import { SecretPage } from './secret-page.ts';
import { type Credentials, createCaller, type Problem } from './shared/api.ts';
import { Guard } from './shared/guard.ts';
import { html } from './shared/html.ts';
import { type PersonSession, readPersonSession, signOutPerson, useIdleEnd } from './shared/person.ts';
import { useRoute } from './shared/router.ts';
import {
  allows,
  type Facts,
  isTest,
  type NewSecret,
  type OwnConsumer,
  type Session,
  SessionContext,
} from './shared/session.ts';
import { SignIn } from './sign-in.ts';
import { TestBand } from './test-band.ts';

interface SignedIn {
  /** Null: the session of a person. */
  credentials: Credentials | null;
  person?: PersonSession;
  consumer: OwnConsumer;
}

/** The console: the sign-in, or a page with the way to the others. */
export function App(): VNode {
  const [facts, setFacts] = useState<Facts | undefined>();
  const [signedIn, setSignedIn] = useState<SignedIn | undefined>();
  const [notice, setNotice] = useState<Problem | undefined>();
  const [secrets, setSecrets] = useState<readonly NewSecret[]>([]);
  const refreshFacts = async () => {
    const found = await readFacts();
    setFacts(found);
    return found;
  };
  const [isAsking, setAsking] = useState(true);
  useEffect(() => void start(), []);
  // Somebody who has signed in stays so when the page is loaded again.
  const start = async () => {
    const { people } = await refreshFacts();
    const person = people ? await readPersonSession() : undefined;
    const consumer =
      person &&
      (await createCaller(null)
        .client.consumer.retrieve()
        .catch(() => undefined));
    if (person && consumer) setSignedIn({ credentials: null, person, consumer });
    setAsking(false);
  };
  const latest = useRef(signedIn);
  latest.current = signedIn;
  const signOut = (left: SignedIn, why?: Problem) => {
    // Its last requests may be answered after somebody else has signed in, or types in the form.
    if (latest.current !== left) return;
    latest.current = undefined;
    setNotice(why);
    setSignedIn(undefined);
  };
  // Another one may come before the first is stored: each is shown once only.
  const showSecret = (made: NewSecret) => setSecrets((waiting) => [...waiting, made]);
  const [secret] = secrets;
  const forget = () => setSecrets((waiting) => waiting.slice(1));
  const shown = secret && html`<${SecretPage} key=${secret.secret} secret=${secret} onStored=${forget} />`;
  if (isAsking && facts?.people) return html`<main><p>Loading…</p></main>`;
  if (signedIn === undefined || facts === undefined) {
    // Somebody rotated the pair that they are here with: the new one is shown all the same.
    if (shown) return html`<main>${shown}</main>`;
    const onSignIn = (credentials: Credentials, consumer: OwnConsumer) =>
      setSignedIn({ credentials, consumer });
    return html`<${SignIn} facts=${facts} notice=${notice} onSignIn=${onSignIn} key=${notice} />`;
  }
  return html`<${Shell} signedIn=${signedIn} facts=${facts} refreshFacts=${refreshFacts} signOut=${signOut}
    secret=${shown} showSecret=${showSecret} />`;
}

/** Nobody waits longer for them to sign in. */
const factsTimeoutMs = 5000;

/** The console works without them; only the links to records do not. */
async function readFacts(): Promise<Facts> {
  const unknown: Facts = { environment: '', version: '', record_url: null, people: null };
  return fetch('/console/settings', { signal: AbortSignal.timeout(factsTimeoutMs) })
    .then((response) => (response.ok ? (response.json() as Promise<Facts>) : unknown))
    .catch(() => unknown);
}

interface ShellProps {
  signedIn: SignedIn;
  facts: Facts;
  refreshFacts: () => Promise<Facts>;
  signOut: (left: SignedIn, why?: Problem) => void;
  /** The page of a secret that was not stored yet. */
  secret: VNode | undefined;
  showSecret: (secret: NewSecret) => void;
}

function Shell({ signedIn, facts, refreshFacts, signOut, secret, showSecret }: ShellProps): VNode {
  const { credentials, person, consumer } = signedIn;
  const session = useMemo<Session>(
    () => ({
      consumer,
      facts,
      refreshFacts,
      showSecret,
      can: (resource, action) => allows(consumer, resource, action),
      ...createCaller(credentials, (refusal) => {
        const problem = person ? sessionEndedBy(refusal) : signedOutBy(refusal);
        signOut(signedIn, problem);
        return problem;
      }),
    }),
    [signedIn, facts],
  );
  const allowed = allowedPages(session);
  const route = useRoute();
  const address = route.join('/');
  const found = findPage(allowed, route);
  const { page, rest } = typeof found === 'string' ? {} : found;
  useTitle(page?.title ?? 'Page not found');
  useFocus(address);
  const leave = async (why?: Problem) => {
    // The next one to sign in may not see this page.
    history.replaceState(null, '', location.pathname);
    const next = person && (await signOutPerson());
    signOut(signedIn, why);
    // At the company too, unless somebody is to read why it ended.
    if (next && why === undefined) location.assign(next);
  };
  const idleSeconds = useIdleEnd(person, () => void leave(endedIdle));
  return html`<${SessionContext.Provider} value=${session}>
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the page</a>
    <header>
      <span class="brand">Handoff Gateway${facts.environment && html`<span class="environment">${facts.environment}</span>`}</span>
      <nav aria-label="Pages">
        ${allowed.map(
          ({ path, title }) =>
            html`<a key=${path} href=${`#/${path}`} aria-current=${path === page?.path ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      <${Who} consumer=${consumer} person=${person} />
      ${!secret && html`<button type="button" class="link" onClick=${() => void leave()}>Sign out</button>`}
    </header>
    ${idleSeconds !== undefined && html`<${PersonStrip} seconds=${idleSeconds} />`}
    ${isTest(consumer) && html`<${TestBand} />`}
    <main id="main" tabindex="-1">
      ${secret ?? (page ? html`<${Guard} key=${page.path} address=${address}><${page.Page} route=${rest} /></${Guard}>` : html`<${NoPage} isForbidden=${found === 'forbidden'} />`)}
    </main>
  </${SessionContext.Provider}>`;
}

/** The address after `#` is the page's, so the link itself cannot lead there. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function useTitle(title: string): void {
  useLayoutEffect(() => {
    document.title = `${title} – Handoff Gateway`;
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [title]);
}

/** Announces another page to a screen reader, and puts the keyboard at its beginning, where it has not done so itself. */
function useFocus(address: string): void {
  const isFirst = useRef(true);
  // At once: later it would take the focus from where somebody types.
  useLayoutEffect(() => {
    const main = document.getElementById('main');
    if (!isFirst.current && !main?.contains(document.activeElement)) main?.focus();
    isFirst.current = false;
  }, [address]);
}

function signedOutBy({ request_id }: Problem): Problem {
  return {
    title: 'You were signed out',
    detail:
      'Your key no longer works: it has expired, or was rotated, disabled or revoked. Sign in with another one.',
    status: 401,
    code: 'invalid_credentials',
    request_id,
  };
}

function sessionEndedBy({ request_id }: Problem): Problem {
  return { ...endedIdle, title: 'Your session has ended', detail: 'Sign in again.', request_id };
}

const endedIdle: Problem = {
  title: 'You were signed out',
  detail: 'You did nothing for a while. Sign in again.',
  status: 401,
  code: 'invalid_credentials',
  request_id: null,
};
