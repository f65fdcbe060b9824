import { useEffect } from 'preact/hooks';

/**
 * Keeps the keyboard at its place: where the element that had the focus is taken away, the nearest one around it that can have
 * the focus gets it, such as the table of a row that is gone.
 */
export function useKeptFocus(): void {
  useEffect(() => {
    let path: HTMLElement[] = [];
    const follow = (event: FocusEvent) => {
      path = event.composedPath().filter((one) => one instanceof HTMLElement);
    };
    const repair = () => {
      const isLost = document.activeElement === document.body && path[0]?.isConnected === false;
      const around = path.find((one) => one.isConnected && one.hasAttribute('tabindex'));
      if (isLost) (around ?? document.getElementById('main'))?.focus({ preventScroll: true });
    };
    const observer = new MutationObserver(repair);
    observer.observe(document.body, { childList: true, subtree: true });
    addEventListener('focusin', follow);
    return () => {
      observer.disconnect();
      removeEventListener('focusin', follow);
    };
  }, []);
}
