import { HandoffProblem } from '@handoff-gateway/client';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Credentials, createCaller, Failure, type Problem, problemFrom } from './shared/api.ts';
import { pageFacts } from './shared/page-facts.ts';
import { Field, ProblemAlert } from './shared/parts.tsx';
import { beginSignIn } from './shared/person.ts';
import type { OwnConsumer } from './shared/session.ts';

interface SignInProps {
  /** Why the person is here again. */
  notice: Problem | undefined;
  onSignIn: (credentials: Credentials, consumer: OwnConsumer) => void;
}

/** A form that password managers fill. What is typed goes into this tab's memory and nowhere else. */
export function SignIn({ notice, onSignIn }: SignInProps) {
  const [apiKey, setApiKey] = useState('');
  const [apiSecret, setApiSecret] = useState('');
  const [problem, setProblem] = useState(notice);
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => {
    // Not that of the page that somebody has left.
    document.title = 'Sign in – Handoff Gateway';
    // At once: later it would take the focus from where somebody types.
    form.current?.querySelector('input')?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    const credentials = { apiKey: apiKey.trim(), apiSecret: apiSecret.trim() };
    try {
      onSignIn(credentials, await findConsumer(credentials));
    } catch (error) {
      setProblem(problemFrom(error));
      setBusy(false);
    }
  };
  const { people, environment } = pageFacts;
  // Why somebody is here again stands above both ways in.
  const ofForm = people && problem === notice ? undefined : problem;
  const keyForm = (
    <form ref={form} onSubmit={submit} class="panel">
      {!people && <h1>Sign in</h1>}
      <Field
        label="API key"
        name="username"
        autocomplete="username"
        value={apiKey}
        onInput={setApiKey}
        required
      />
      <Field
        label="API secret"
        name="password"
        type="password"
        autocomplete="current-password"
        value={apiSecret}
        onInput={setApiSecret}
        required
      />
      {ofForm && <ProblemAlert problem={ofForm} />}
      <button class="primary" aria-busy={isBusy}>
        Sign in
      </button>
      {environment === 'dev' && <WhereToFindThem />}
      <p class="hint">Your key and secret stay in this tab. Reloading the page signs you out.</p>
    </form>
  );
  if (!people)
    return (
      <main class="sign-in">
        <p class="brand">Handoff Gateway</p>
        {keyForm}
      </main>
    );
  return (
    <main class="sign-in">
      <p class="brand">Handoff Gateway</p>
      <WithAccount label={people.label} problem={notice} />
      {!people.only && (
        <details open={ofForm !== undefined}>
          <summary>Use an API key</summary>
          {keyForm}
        </details>
      )}
    </main>
  );
}

interface WithAccountProps {
  label: string;
  /** Why the person is here again. */
  problem: Problem | undefined;
}

function WithAccount({ label, problem }: WithAccountProps) {
  return (
    <div class="panel">
      <h1>Sign in</h1>
      {problem && <ProblemAlert problem={problem} />}
      <button type="button" class="primary" onClick={beginSignIn}>
        Sign in with {label}
      </button>
    </div>
  );
}

function WhereToFindThem() {
  return (
    <p class="hint">
      <code>.data/credentials.json</code> has two key pairs: <code>console</code> for advisors,{' '}
      <code>admin</code> for administrators.
    </p>
  );
}

async function findConsumer(credentials: Credentials): Promise<OwnConsumer> {
  // Other characters cannot stand in a header, so no credentials have them.
  if (!/^[\x21-\x7e]+$/.test(credentials.apiKey + credentials.apiSecret)) throw new Failure(notValid(null));
  try {
    return await createCaller(credentials).client.consumer.retrieve();
  } catch (error) {
    if (error instanceof HandoffProblem && error.status === 401)
      throw new Failure(notValid(error.requestId ?? null));
    throw error;
  }
}

function notValid(requestId: string | null): Problem {
  const detail = 'Check for typos. The key may also have expired, or been rotated or disabled.';
  return {
    title: 'Invalid key or secret',
    detail,
    status: 401,
    code: 'invalid_credentials',
    request_id: requestId,
  };
}
