import type { VNode } from 'preact';
import { useId, useState } from 'preact/hooks';
import { recall } from '../shared/memory.ts';
import { useSession } from '../shared/session.ts';
import { longest, type Result, readResults } from './results.ts';

interface LoadProps {
  onLoad: (results: Result[]) => void;
  onClose: () => void;
}

/** Takes search results from a file or as pasted text. */
export function LoadForm({ onLoad, onClose }: LoadProps): VNode {
  // Closing the form, or a visit to another page, loses nothing that was pasted.
  const draft = recall(useSession().memory, 'pasted results', () => ({ text: '' }));
  const [text, setText] = useState(draft.text);
  const [fault, setFault] = useState<string | undefined>();
  const [fileId, textId] = [useId(), useId()];
  const use = (json: string) => {
    try {
      onLoad(readResults(json));
      return true;
    } catch (error) {
      setFault((error as Error).message);
      return false;
    }
  };
  const takeFile = async (event: Event) => {
    const [file] = (event.currentTarget as HTMLInputElement).files ?? [];
    if (file === undefined) return;
    if (file.size > longest) setFault('The file is over 20 MiB.');
    else use(await file.text());
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (use(text)) draft.text = '';
  };
  return (
    <form class="panel" onSubmit={submit} onKeyDown={({ key }) => key === 'Escape' && onClose()}>
      <p class="hint">
        JSON with one search result or a list of them, each as <code>{'{"name", "source", "details"}'}</code>{' '}
        or as the supplier sent it.
      </p>
      <div class="field">
        <label for={fileId}>File</label>
        <input id={fileId} type="file" accept=".json,application/json" onChange={takeFile} />
      </div>
      <div class="field">
        <label for={textId}>Paste JSON</label>
        <textarea
          id={textId}
          rows={8}
          spellcheck={false}
          value={text}
          onInput={(event: Event) => {
            draft.text = (event.currentTarget as HTMLTextAreaElement).value;
            setText(draft.text);
          }}
        ></textarea>
      </div>
      {fault !== undefined && (
        <p class="problem" role="alert">
          {fault}
        </p>
      )}
      <button class="primary">Use results</button>
    </form>
  );
}
