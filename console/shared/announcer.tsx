import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

interface Said {
  text: string;
}

const shownMs = 6000;

/** What was done, in a word at the edge of the page: screen readers speak it, eyes have a few seconds. */
export function useAnnouncer(): { say: (text: string) => void; said: Said | undefined; announcer: VNode } {
  const [said, setSaid] = useState<Said | undefined>();
  useEffect(() => {
    const timer = setTimeout(() => setSaid(undefined), shownMs);
    return () => clearTimeout(timer);
  }, [said]);
  return {
    said,
    say: (text) => setSaid({ text }),
    announcer: (
      <div class="announcer" aria-live="polite">
        {said && <p>{said.text}</p>}
      </div>
    ),
  };
}
