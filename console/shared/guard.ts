import type { VNode } from 'preact';
import { useErrorBoundary } from 'preact/hooks';
import { problemFrom } from './api.ts';
import { type Child, html } from './html.ts';
import { ProblemAlert, single } from './parts.ts';

/** Where a page of the console fails, it says so, and the way to the others stays. */
export function Guard({ children }: { children?: Child }): VNode {
  const [error, showAgain] = useErrorBoundary() as [unknown, () => void];
  if (error === undefined) return html`${children}`;
  return html`<${ProblemAlert} problem=${problemFrom(error)}>
    <p class="buttons"><button type="button" class="plain" onClick=${single(showAgain)}>Show the page again</button></p>
  </${ProblemAlert}>`;
}
