import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { pages } from './pages.ts';
import { SecretPage } from './secret-page.ts';
import { type Credentials, createCaller, type Problem } from './shared/api.ts';
import { Guard } from './shared/guard.ts';
import { html } from './shared/html.ts';
import { useRoute } from './shared/router.ts';
import {
  allows,
  type Facts,
  type NewSecret,
  type OwnConsumer,
  type Session,
  SessionContext,
} from './shared/session.ts';
import { SignIn } from './sign-in.ts';

interface SignedIn {
  credentials: Credentials;
  consumer: OwnConsumer;
}

/** The console: the sign-in, or a page with the way to the others. */
export function App(): VNode {
  const [facts, setFacts] = useState<Facts | undefined>();
  const [signedIn, setSignedIn] = useState<SignedIn | undefined>();
  const [notice, setNotice] = useState<Problem | undefined>();
  const [secret, showSecret] = useState<NewSecret | undefined>();
  const refreshFacts = async () => {
    const found = await readFacts();
    setFacts(found);
    return found;
  };
  useEffect(() => void refreshFacts(), []);
  const signOut = (why?: Problem) => {
    setNotice(why);
    setSignedIn(undefined);
  };
  const shown = secret && html`<${SecretPage} secret=${secret} onStored=${() => showSecret(undefined)} />`;
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

/** The console works without them; only the links to records do not. */
async function readFacts(): Promise<Facts> {
  const unknown: Facts = { environment: '', version: '', record_url: null };
  return fetch('/console/settings').then(
    (response) => (response.ok ? (response.json() as Promise<Facts>) : unknown),
    () => unknown,
  );
}

interface ShellProps {
  signedIn: SignedIn;
  facts: Facts;
  refreshFacts: () => Promise<Facts>;
  signOut: (why?: Problem) => void;
  /** The page of a secret that was not stored yet. */
  secret: VNode | undefined;
  showSecret: (secret: NewSecret) => void;
}

function Shell({ signedIn, facts, refreshFacts, signOut, secret, showSecret }: ShellProps): VNode {
  const { credentials, consumer } = signedIn;
  const session = useMemo<Session>(
    () => ({
      consumer,
      facts,
      refreshFacts,
      showSecret,
      can: (resource, action) => allows(consumer, resource, action),
      ...createCaller(credentials, (refusal) => {
        const problem = signedOutBy(refusal);
        signOut(problem);
        return problem;
      }),
    }),
    [signedIn, facts],
  );
  const allowed = pages.filter(({ isAllowed }) => isAllowed(session));
  const [name, ...rest] = useRoute();
  // What waits is rarely what somebody comes for.
  const page = allowed.find(({ path }) => path === name) ?? allowed.find(({ path }) => path !== 'waiting');
  useTitle(page?.title);
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
      <span class="who" title=${consumer.id}>${consumer.name}</span>
      ${!secret && html`<button type="button" class="link" onClick=${() => signOut()}>Sign out</button>`}
    </header>
    <main id="main" tabindex="-1">
      ${secret ?? (page && html`<${Guard} key=${page.path}><${page.Page} route=${rest} /></${Guard}>`)}
    </main>
  </${SessionContext.Provider}>`;
}

/** The address after `#` is the page's, so the link itself cannot lead there. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

/** Tells a screen reader that another page is shown, and puts the keyboard at its beginning. */
function useTitle(title: string | undefined): void {
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title ?? 'Console'} – Handoff Gateway`;
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    if (!isFirst.current) document.getElementById('main')?.focus();
    isFirst.current = false;
  }, [title]);
}

function signedOutBy({ request_id }: Problem): Problem {
  return {
    title: 'You were signed out',
    detail:
      'The credentials are no longer valid: expired, rotated, disabled or revoked. Sign in with others.',
    status: 401,
    code: 'invalid_credentials',
    request_id,
  };
}
