import type { ComponentChildren, HTMLAttributes, InputHTMLAttributes, VNode } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { Problem } from './api.ts';
import { useFirstError, useIsTold } from './first-error.ts';
import { pretty } from './json-text.ts';
import type { Loaded, Pages } from './load.ts';
import { isOutage } from './outage.ts';
import { withCrmName } from './page-facts.ts';
import { JustNow } from './time.tsx';

interface FieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  type?: 'text' | 'search' | 'password' | 'number' | 'url' | 'datetime-local';
  name?: string;
  autocomplete?: 'username' | 'current-password';
  placeholder?: string;
  /** Id of the element with what to choose from. */
  list?: string;
  /** Below the box: what to type, or what is wrong with what was typed. */
  hint?: string | undefined;
  'aria-invalid'?: 'true' | undefined;
  required?: boolean;
  pattern?: string;
  /** What the pattern asks for, in words. */
  title?: string;
  maxLength?: number;
  step?: 'any';
  min?: number;
  max?: number;
}

/** A text box with its label. */
export function Field({ label, value, onInput, hint, ...rest }: FieldProps): VNode {
  const id = useId();
  const onChange = (event: Event) => onInput((event.currentTarget as HTMLInputElement).value);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        value={value}
        onInput={onChange}
        spellcheck={false}
        // Preact lists the attributes by type, and this is one of several types.
        {...(rest as InputHTMLAttributes)}
        aria-describedby={hint ? `${id}-hint` : undefined}
      />
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: [value: T, text: string][];
  onChange: (value: T) => void;
}

/** A list to choose from, with its label. */
export function Choice<T extends string>({ label, value, options, onChange }: ChoiceProps<T>): VNode {
  const id = useId();
  const choose = (event: Event) => onChange((event.currentTarget as HTMLSelectElement).value as T);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={choose}>
        {options.map(([key, text]) => (
          <option key={key} value={key} selected={key === value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

/** The field of an error, before its message; empty if an error of the CRM is about no field of the request. */
function fieldOf({ pointer, parameter, header }: NonNullable<Problem['errors']>[number]): string {
  const field = pointer || parameter || header;
  return field ? `${field}: ` : '';
}

interface AlertProps {
  problem: Problem;
  /** It answers a click that may have been far below. */
  isAnswer?: boolean;
  children?: ComponentChildren;
}

/** What went wrong, what to do, and what to report to those who run the service. */
export function ProblemAlert({ problem, isAnswer, children }: AlertProps): VNode {
  const alert = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isAnswer) alert.current?.scrollIntoView({ block: 'nearest' });
  }, [problem]);
  const { title, detail, errors = [], retry_after: wait, request_id: id } = problem;
  return (
    <div class="problem" role="alert" ref={alert}>
      <p>
        <strong>{withCrmName(title)}</strong>
      </p>
      <p>{withCrmName(detail)}</p>
      {errors.length > 0 && (
        <ul>
          {errors.map((one) => (
            <li>
              {fieldOf(one)}
              {withCrmName(one.message)}
            </li>
          ))}
        </ul>
      )}
      {wait !== undefined && <p>Try again in {wait} s.</p>}
      {id && (
        <p class="hint">
          Request ID <code>{id}</code>
        </p>
      )}
      {children}
    </div>
  );
}

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand at the right. */
  isNumber?: boolean;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** Attributes of a row. */
  attributesOf?: (row: T) => HTMLAttributes<HTMLTableRowElement>;
}

export function Table<T>({ caption, columns, rows, keyOf, attributesOf }: TableProps<T>): VNode {
  return (
    <div class="scroll" tabindex={0} role="region" aria-label={caption}>
      <table class="rows">
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th scope="col" class={isNumber ? 'number' : ''}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} {...attributesOf?.(row)}>
              {columns.map(({ title, cell, isNumber }) => (
                <td class={isNumber ? 'number' : ''} data-title={title}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface LoadProblemProps {
  of: Pick<Loaded<unknown>, 'problem' | 'reload'>;
  what?: string;
  /** In place of the button. */
  children?: ComponentChildren;
}

/** Why something could not be read, with the way on. Where the same trouble is told on the page already, in a few words. */
export function LoadProblem({ of: { problem, reload }, what, children }: LoadProblemProps): VNode | null {
  const isTrouble = problem !== undefined && isOutage(problem);
  const isFirst = useFirstError(isTrouble);
  const isTold = useIsTold(problem) || !isFirst;
  if (problem === undefined) return null;
  if (isTrouble && isTold) return <p class="quiet">Not available right now.</p>;
  return (
    <ProblemAlert problem={problem}>
      {children || <TryAgain act={reload} {...(what && { what })} />}
    </ProblemAlert>
  );
}

interface ListProps<T> extends Omit<TableProps<T>, 'rows'> {
  pages: Pages<T>;
  /** Shown where there is nothing. */
  empty: ComponentChildren;
}

/** A list of the API as a table: with its problem, its emptiness, and a way to go on. */
export function List<T>({ pages, empty, ...table }: ListProps<T>): VNode {
  const { data, problem, hasMore, more } = pages;
  return (
    <>
      <Freshness of={pages} />
      <LoadProblem of={pages} />
      {data === undefined && problem === undefined && <Skeleton />}
      {data?.length === 0 && problem === undefined && <div class="empty">{empty}</div>}
      {data !== undefined && data.length > 0 && <Table {...table} rows={data} />}
      {hasMore && (
        <button type="button" class="plain" onClick={more}>
          Show more
        </button>
      )}
    </>
  );
}

/** Where a filter leaves nothing; `what` it leaves none of. */
export function NoMatch({ what, showAll }: { what: string; showAll: () => void }): VNode {
  return (
    <>
      <p>No {what} match these filters.</p>
      <p>
        <button type="button" class="link" onClick={showAll}>
          Show all
        </button>
      </p>
    </>
  );
}

/** The way on from a read that failed. */
function TryAgain({ act, what = 'Try again' }: { act: () => unknown; what?: string }): VNode {
  return (
    <p class="buttons">
      <button type="button" class="plain" onClick={single(() => void act())}>
        {what}
      </button>
    </p>
  );
}

/** A placeholder for what is being loaded; for screen readers there are words beside it. */
export function Skeleton(): VNode {
  return (
    <div class="skeleton" aria-hidden="true">
      {[1, 2, 3, 4, 5].map(() => (
        <span></span>
      ))}
    </div>
  );
}

/** When what is shown was read, and a button to read it again. */
export function Freshness({ of }: { of: Omit<Loaded<unknown>, 'data'> }): VNode {
  const { loadedAt, isLoading, reload } = of;
  return (
    <p class="freshness">
      {loadedAt === undefined ? (
        isLoading ? (
          'Loading…'
        ) : (
          ''
        )
      ) : (
        <>
          Updated <JustNow at={loadedAt} />
        </>
      )}{' '}
      <button type="button" class="link" onClick={reload} aria-busy={isLoading}>
        Refresh
      </button>
    </p>
  );
}

const tones: Record<string, string> = {
  created: 'good',
  confirmed: 'good',
  accepted: 'good',
  delivered: 'good',
  active: 'good',
  connected: 'good',
  enabled: 'good',
  pending: 'waiting',
  waiting: 'waiting',
  awaiting_approval: 'waiting',
  rotated: 'waiting',
  failed: 'bad',
  rejected: 'bad',
  needs_attention: 'bad',
  'not connected': 'bad',
  disabled: 'bad',
  expired: 'bad',
  revoked: 'bad',
};

/** A state in a word, whose colour only repeats it. Empty where the consumer does not see the field. */
export function Badge({ children = '' }: { children?: string | undefined }): VNode {
  return <span class={`badge ${tones[children] ?? ''}`}>{children.replaceAll('_', ' ')}</span>;
}

/** An id, cut short for the eye alone: it is found and copied in full. */
export function Id({ children }: { children: string | null | undefined }): VNode {
  if (!children) return <span class="quiet">–</span>;
  return (
    <code class={children.length > 14 ? 'cut' : ''} title={children}>
      {children}
    </code>
  );
}

/** JSON text with line breaks, digit for digit. */
export function Json({ text, label }: { text: string; label: string }): VNode {
  const shown = useMemo(() => pretty(text), [text]);
  return (
    <pre tabindex={0} role="region" aria-label={label}>
      {shown}
    </pre>
  );
}

/** The same, folded: of many on a page only those are laid out that somebody opens. */
export function FoldedJson({ summary, ...json }: { summary: string; text: string; label: string }): VNode {
  const [isOpen, setOpen] = useState(false);
  const follow = (event: Event) => setOpen((event.currentTarget as HTMLDetailsElement).open);
  return (
    <details onToggle={follow}>
      <summary>{summary}</summary>
      {isOpen && <Json {...json} />}
    </details>
  );
}

/** Handles a click; the second half of a double click is not meant, and may meet another button. */
export function single(act: () => void): (event: MouseEvent) => void {
  return ({ detail }) => {
    if (detail <= 1) act();
  };
}

/** Copies a text, and says whether that worked. `what` is for ears, where several stand on a page. */
export function CopyButton({
  text,
  label = 'Copy',
  what,
}: {
  text: string;
  label?: string;
  what?: string;
}): VNode {
  const [said, say] = useState('');
  const copy = async () => {
    // Browsers offer the clipboard on https and on this machine only.
    const works = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    say(works ? 'Copied' : "This browser doesn't allow copying here. Select the text and copy it.");
  };
  return (
    <>
      <button type="button" class="plain copy" aria-label={what && `${label} ${what}`} onClick={copy}>
        {label}
      </button>
      <span class="hint" role="status">
        {said}
      </span>
    </>
  );
}
