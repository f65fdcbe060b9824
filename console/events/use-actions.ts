import { useState } from 'preact/hooks';
import { type Problem, problemFrom, type RequestOptions } from '../shared/api.ts';
import { useSession } from '../shared/session.ts';

/** Sends a request that changes something; gives the answer's text, or undefined where it failed. */
export type Act = (
  path: string,
  method: NonNullable<RequestOptions['method']>,
  body?: string,
  done?: string,
) => Promise<string | undefined>;

/** Actions of a page: after each the list is read again, and what went wrong is kept to be shown. */
export function useActions(reload: () => Promise<void>) {
  const session = useSession();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [notice, setNotice] = useState('');
  const act: Act = async (path, method, body, done = '') => {
    setProblem(undefined);
    setNotice('');
    try {
      const { text } = await session.send(path, { method, ...(body !== undefined && { body }) });
      setNotice(done);
      await reload();
      return text;
    } catch (error) {
      setProblem(problemFrom(error));
      return undefined;
    }
  };
  return { act, problem, notice };
}
