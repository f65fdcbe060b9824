import type { VNode } from 'preact';
import { useDocumentTitle } from './shared/title.ts';

/** In place of a page: the address leads to none, or to one that these credentials may not use. */
export function NoPage({ isForbidden }: { isForbidden: boolean }): VNode {
  const title = isForbidden ? 'No access to this page' : 'Page not found';
  useDocumentTitle(title);
  return (
    <>
      <h1>{title}</h1>
      <p>
        {isForbidden
          ? "Your key doesn't have permission to see it. An administrator can grant it."
          : "There's nothing at this address. The link may be incomplete."}
      </p>
      <p>
        <a href="#/">Go to the start page</a>
      </p>
    </>
  );
}
