import type { HandoffClient } from '@handoff-gateway/client';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { useSession } from '../shared/session.ts';

type Endpoints = HandoffClient['webhookEndpoints'];

/**
 * Makes a change; gives its answer, or undefined where it failed. Failures go to `show`, else to the page. `done`: what to say
 * afterwards.
 */
export type Act = <T>(
  change: (endpoints: Endpoints) => Promise<T>,
  done?: string,
  show?: (problem: Problem) => void,
) => Promise<T | undefined>;

/** Actions of a page: the list is read again after each, which no secret waits for; what went wrong is kept to be shown. */
export function useActions(reload: () => Promise<void>) {
  const session = useSession();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [notice, setNotice] = useState('');
  const act: Act = async (change, done = '', show = setProblem) => {
    setProblem(undefined);
    setNotice('');
    try {
      const answer = await change(session.client.webhookEndpoints);
      setNotice(done);
      void reload();
      return answer;
    } catch (error) {
      show(problemFrom(error));
      return undefined;
    }
  };
  return { act, problem, notice };
}
