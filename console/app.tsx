import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { picksOf } from './hand-off/picks.ts';
import { Navigation } from './navigation.tsx';
import { NoPage } from './no-page.tsx';
import { OutageStrip, tellsAll } from './outage-strip.tsx';
import { allowedPages, type Found, findPage } from './pages.ts';
import { Finder } from './palette.tsx';
import { PersonStrip, Who } from './person-bar.tsx';
import { SecretPage } from './secret-page.tsx';
import { useAnnouncer } from './shared/announcer.tsx';
import { type Credentials, createCaller, type Problem } from './shared/api.ts';
import { Approvals } from './shared/approvals.ts';
import { Failures, FailuresContext, StripContext } from './shared/first-error.ts';
import { Guard } from './shared/guard.tsx';
import { useKeptFocus } from './shared/kept-focus.ts';
import type { Memory } from './shared/memory.ts';
import { Outage, type Trouble } from './shared/outage.ts';
import { pageFacts } from './shared/page-facts.ts';
import {
  type PersonSession,
  readPersonSession,
  returnFromSignIn,
  signOutPerson,
  useIdleEnd,
} from './shared/person.ts';
import { useRoute } from './shared/router.ts';
import {
  allows,
  isTest,
  type NewSecret,
  type OwnConsumer,
  type Session,
  SessionContext,
} from './shared/session.ts';
import { SignIn } from './sign-in.tsx';
import { TestBand } from './test-band.tsx';

interface SignedIn {
  /** Null: the session of a person. */
  credentials: Credentials | null;
  person?: PersonSession;
  consumer: OwnConsumer;
  memory: Memory;
}

const { people, environment } = pageFacts;

/** The console: the sign-in, or a page with the way to the others. */
export function App(): VNode {
  const [signedIn, setSignedIn] = useState<SignedIn | undefined>();
  const [notice, setNotice] = useState<Problem | undefined>();
  const [secrets, setSecrets] = useState<readonly NewSecret[]>([]);
  const latest = useRef(signedIn);
  latest.current = signedIn;
  /** Whoever the service signed out, and may come back. */
  const lost = useRef<SignedIn | undefined>(undefined);
  const enter = (entering: Omit<SignedIn, 'memory'>) => {
    const isBack =
      lost.current?.consumer.id === entering.consumer.id &&
      lost.current.person?.person.email === entering.person?.person.email;
    setSignedIn({ ...entering, memory: (isBack && lost.current?.memory) || new Map() });
    lost.current = undefined;
  };
  const isAsking = useRunningSession(enter);
  const signOut = (left: SignedIn, why?: Problem) => {
    // Its last requests may be answered after somebody else has signed in, or types in the form.
    if (latest.current !== left) return;
    latest.current = undefined;
    lost.current = why && left;
    setNotice(why);
    setSignedIn(undefined);
  };
  // Another one may come before the first is stored: each is shown once only.
  const showSecret = (made: NewSecret) => setSecrets((waiting) => [...waiting, made]);
  const [secret] = secrets;
  const forget = () => setSecrets((waiting) => waiting.slice(1));
  const shown = secret && <SecretPage key={secret.secret} secret={secret} onStored={forget} />;
  if (isAsking)
    return (
      <main>
        <p>Loading…</p>
      </main>
    );
  if (signedIn === undefined) {
    // Somebody rotated the pair that they are here with: the new one is shown all the same.
    if (shown) return <main>{shown}</main>;
    const onSignIn = (credentials: Credentials, consumer: OwnConsumer) => enter({ credentials, consumer });
    return <SignIn notice={notice} onSignIn={onSignIn} key={notice} />;
  }
  return <Shell signedIn={signedIn} signOut={signOut} secret={shown} showSecret={showSecret} />;
}

/** Somebody who has signed in with their account stays so when the page is loaded again. True until that is known. */
function useRunningSession(enter: (entering: Omit<SignedIn, 'memory'>) => void): boolean {
  const [isAsking, setAsking] = useState(people !== null);
  useEffect(() => {
    const find = async () => {
      const person = await readPersonSession();
      const consumer =
        person &&
        (await createCaller(null)
          .client.consumer.retrieve()
          .catch(() => undefined));
      if (person && consumer) {
        returnFromSignIn();
        enter({ credentials: null, person, consumer });
      }
      setAsking(false);
    };
    if (people !== null) void find();
  }, []);
  return isAsking;
}

interface ShellProps {
  signedIn: SignedIn;
  signOut: (left: SignedIn, why?: Problem) => void;
  /** The page of a secret that was not stored yet. */
  secret: VNode | undefined;
  showSecret: (secret: NewSecret) => void;
}

function Shell({ signedIn, signOut, secret, showSecret }: ShellProps): VNode {
  const { credentials, person, consumer, memory } = signedIn;
  const { said, say, announcer } = useAnnouncer();
  const [trouble, setTrouble] = useState<Trouble | undefined>();
  const session = useMemo<Session>(() => {
    const refused = (refusal: Problem) => {
      const ended = person ? sessionEndedBy(refusal) : signedOutBy(refusal);
      const problem = approvals.isEmpty ? ended : { ...ended, detail: `${ended.detail} ${unsure}` };
      signOut(signedIn, problem);
      return problem;
    };
    const mark = person?.mark ?? null;
    const caller = createCaller(credentials, { actingAs: { consumerId: consumer.id, mark }, refused });
    const outage = new Outage({ client: caller.client, needsCrm: !isTest(consumer), show: setTrouble });
    const can: Session['can'] = (resource, action) => allows(consumer, resource, action);
    const approvals = new Approvals({ client: caller.client, say });
    return { consumer, mark, memory, outage, approvals, showSecret, say, can, ...caller };
  }, [signedIn]);
  useEffect(() => session.outage.watch(), [session]);
  useEffect(() => session.approvals.watch(), [session]);
  const allowed = allowedPages(session);
  const route = useRoute();
  const address = route.join('/');
  const found = findPage(allowed, route);
  const page = typeof found === 'string' ? undefined : found.page;
  useTitle(page?.title);
  useFocus(address);
  useKeptFocus();
  const leave = async (reason?: Problem) => {
    const failed = await session.approvals.leave();
    const why = reason ?? failed;
    // The next one to sign in may not see this page.
    history.replaceState(null, '', location.pathname);
    const next = person && (await signOutPerson(person));
    // Somebody who reads why it ended may come back to them, as to the memory.
    if (why === undefined) picksOf(session).forget();
    signOut(signedIn, why);
    // At the company too, unless somebody is to read why it ended.
    if (next && why === undefined) location.assign(next);
  };
  const idleSeconds = useIdleEnd(person, () => void leave(endedIdle));
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to main content
      </a>
      <header>
        <span class="brand">
          Handoff Gateway{environment && <span class="environment">{environment}</span>}
        </span>
        <Navigation allowed={allowed} current={page?.path} doneAt={said} />
        <Finder allowed={allowed} />
        <Who consumer={consumer} person={person} />
        {!secret && (
          <button type="button" class="link" onClick={() => void leave()}>
            Sign out
          </button>
        )}
      </header>
      {idleSeconds !== undefined && <PersonStrip seconds={idleSeconds} />}
      {isTest(consumer) && <TestBand />}
      {trouble && <OutageStrip trouble={trouble} tryNow={() => void session.outage.tryNow()} />}
      <main id="main" tabindex={-1}>
        <StripContext.Provider value={tellsAll(trouble)}>
          {secret ?? <Shown found={found} address={address} />}
        </StripContext.Provider>
      </main>
      {announcer}
    </SessionContext.Provider>
  );
}

function Shown({ found, address }: { found: Found; address: string }): VNode {
  const failures = useMemo(() => new Failures(), [address]);
  if (typeof found === 'string') return <NoPage isForbidden={found === 'forbidden'} />;
  const { Page, path } = found.page;
  return (
    <FailuresContext.Provider value={failures}>
      <Guard key={path} address={address}>
        <Page route={found.rest} />
      </Guard>
    </FailuresContext.Provider>
  );
}

/** The address after `#` is the page's, so the link itself cannot lead there. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus({ preventScroll: true });
}

/** Names the document after a page of the navigation; undefined for what names itself. */
function useTitle(title: string | undefined): void {
  useLayoutEffect(() => {
    if (title !== undefined) document.title = `${title} – Handoff Gateway`;
  }, [title]);
}

/** Announces another page to a screen reader, and puts the keyboard at its beginning, where it has not done so itself. */
function useFocus(address: string): void {
  const isFirst = useRef(true);
  // At once: later it would take the focus from where somebody types.
  useLayoutEffect(() => {
    const main = document.getElementById('main');
    if (!isFirst.current && !main?.contains(document.activeElement)) {
      main?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [address]);
}

function signedOutBy({ request_id }: Problem): Problem {
  return {
    title: 'You were signed out',
    detail:
      'Your key no longer works. It may have expired, or been rotated, disabled or revoked. Sign in with another one.',
    status: 401,
    code: 'invalid_credentials',
    request_id,
  };
}

const unsure = "Your last approval may not have gone through. Check Waiting when you're back.";

function sessionEndedBy({ request_id }: Problem): Problem {
  return { ...endedIdle, title: 'Your session has ended', detail: 'Sign in again.', request_id };
}

const endedIdle: Problem = {
  title: 'Your session timed out',
  detail: 'You were inactive for too long. Sign in again.',
  status: 401,
  code: 'invalid_credentials',
  request_id: null,
};
