import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useErrorBoundary } from 'preact/hooks';
import { problemFrom } from './api.ts';
import { ProblemAlert, single } from './parts.tsx';

interface GuardProps {
  /** Address of what is shown: a failure there is forgotten when another is shown. */
  address: string;
  children?: ComponentChildren;
}

/** Where a page of the console fails, it says so, and the way to the others stays. */
export function Guard({ address, children }: GuardProps): VNode {
  const [error, showAgain] = useErrorBoundary() as [unknown, () => void];
  useEffect(showAgain, [address]);
  if (error === undefined) return <>{children}</>;
  return (
    <ProblemAlert problem={problemFrom(error)}>
      <p class="buttons">
        <button type="button" class="plain" onClick={single(showAgain)}>
          Reload this page
        </button>
      </p>
    </ProblemAlert>
  );
}
