import type { ComponentChildren, VNode } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from './api.ts';
import { ProblemAlert } from './parts.tsx';

interface DialogProps {
  title: ComponentChildren;
  /** Somebody has closed it, by Escape too: it is to be taken away. */
  onClose: () => void;
  /** For forms with columns, or at the top of the window. */
  look?: 'wide' | 'palette';
  children: ComponentChildren;
}

/** The browser's own dialog, for as long as it is rendered. Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, look, children }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useLayoutEffect(() => {
    const { current: box } = dialog;
    box?.showModal();
    // It is still in the page now: only then the browser gives the focus back.
    return () => box?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} class={look} onClose={onClose}>
      <h2 id={heading}>{title}</h2>
      {children}
    </dialog>
  );
}

interface QuestionProps extends Omit<DialogProps, 'look'> {
  /** What the button says that does it. */
  action: string;
  isDanger?: boolean;
  /** The dialog closes once it is done; where it fails, it stays, and shows why. */
  act: () => Promise<unknown>;
}

/** Asks before something is done, with what has to be known or typed in for it. */
export function Question({
  action,
  isDanger = false,
  act,
  onClose,
  children,
  ...rest
}: QuestionProps): VNode {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>();
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(undefined);
    await act().then(onClose, (error: unknown) => setProblem(problemFrom(error)));
    setBusy(false);
  };
  return (
    <Dialog onClose={onClose} {...rest}>
      <form onSubmit={submit} onKeyDown={ignoreHeld}>
        {children}
        {problem && <ProblemAlert problem={problem} />}
        <div class="buttons">
          <button class={isDanger ? 'danger' : 'primary'} aria-busy={isBusy} onClick={ignoreSecond}>
            {action}
          </button>
          <button type="button" class="plain" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A double click on what opened the dialog ends on its buttons, and is not meant for them. */
function ignoreSecond(event: MouseEvent): void {
  if (event.detail > 1) event.preventDefault();
}

/** Enter that opened the dialog and is held down is not meant for it either. */
function ignoreHeld(event: KeyboardEvent): void {
  if (event.key === 'Enter' && event.repeat) event.preventDefault();
}
