import type { VNode } from 'preact';
import { useEffect, useErrorBoundary } from 'preact/hooks';
import { problemFrom } from './api.ts';
import { type Child, html } from './html.ts';
import { ProblemAlert, single } from './parts.ts';

interface GuardProps {
  /** What is shown: one that fails does not stand in the way of another. */
  place: string;
  children?: Child;
}

/** Where a page of the console fails, it says so, and the way to the others stays. */
export function Guard({ place, children }: GuardProps): VNode {
  const [error, showAgain] = useErrorBoundary() as [unknown, () => void];
  useEffect(showAgain, [place]);
  if (error === undefined) return html`${children}`;
  return html`<${ProblemAlert} problem=${problemFrom(error)}>
    <p class="buttons"><button type="button" class="plain" onClick=${single(showAgain)}>Show the page again</button></p>
  </${ProblemAlert}>`;
}
