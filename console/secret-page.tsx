import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { CopyButton } from './shared/parts.tsx';
import type { NewSecret } from './shared/session.ts';
import { useDocumentTitle, useHeading } from './shared/title.ts';

/** A new secret, in place of every page: only the button leaves it, for it is not shown again. */
export function SecretPage({ secret, onStored }: { secret: NewSecret; onStored: () => void }): VNode {
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, []);
  const { title, apiKey, secret: text, note } = secret;
  const heading = useHeading();
  useDocumentTitle(title);
  return (
    <section class="panel secret">
      <h1 ref={heading} tabindex={-1}>
        {title}
      </h1>
      <p>This secret is shown only once. Store it before you continue.</p>
      <dl>
        {apiKey && (
          <>
            <dt>API key</dt>
            <dd>
              <code>{apiKey}</code>
            </dd>
          </>
        )}
        <dt>Secret</dt>
        <dd>
          <code>{text}</code>
        </dd>
      </dl>
      <p class="hint">{note}</p>
      <p class="buttons">
        <CopyButton text={apiKey ? `${apiKey}\n${text}` : text} />
        <button type="button" class="primary" onClick={onStored}>
          I've stored it
        </button>
      </p>
    </section>
  );
}
