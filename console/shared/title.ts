import { useLayoutEffect, useRef } from 'preact/hooks';
import { visible } from './visible.ts';

/** Names the document after what a page shows, as long as it is shown. Nothing while that is not known. */
export function useDocumentTitle(name: string | undefined): void {
  useLayoutEffect(() => {
    if (name === undefined) return undefined;
    const before = document.title;
    document.title = `${visible(name)} – Handoff Gateway`;
    return () => {
      document.title = before;
    };
  }, [name]);
}

/** For the heading of a page within a page: a screen reader begins there, and the page is shown from its top. */
export function useHeading() {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    scrollTo(0, 0);
    heading.current?.focus({ preventScroll: true });
  }, []);
  return heading;
}
