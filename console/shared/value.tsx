import type { ComponentChildren, VNode } from 'preact';
import { useId, useState } from 'preact/hooks';
import { type Field, fieldsOf, partsOf } from './json-text.ts';
import { Amount, isMoney } from './money.tsx';
import { CopyButton, Json } from './parts.tsx';
import { Ago, dayInWords } from './time.tsx';
import { isUuid } from './uuid.ts';
import { countOf, labelOf } from './words.ts';

interface ValueProps {
  /** The value as JSON text: its digits are shown as they are. */
  json: string;
  /** What it is, for ears. */
  label: string;
  /** What a supplier has sent: its times are those of some place, and stay as they were written. */
  isVerbatim?: boolean;
}

const words: Record<string, string> = { true: 'Yes', false: 'No' };

/** One value for people: dates and times in words, ids to copy, lists in a line, all else folded by level. */
export function Value({ json, ...rest }: ValueProps): VNode {
  if (['null', '""', '[]', '{}'].includes(json)) return <span class="quiet">–</span>;
  if (json.startsWith('"')) return <Text text={JSON.parse(json) as string} {...rest} />;
  if (isFlat(json))
    return (
      <>
        {partsOf(json).map((part, i) => (
          <>
            {i > 0 && ', '}
            <bdi>{plain(part)}</bdi>
          </>
        ))}
      </>
    );
  if (/^[{[]/.test(json)) return <Level json={json} />;
  return <span class="digits">{words[json] ?? json}</span>;
}

/** RFC 3339 with a zone: a moment, and not a time of day somewhere. */
const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

function Text({ text, label, isVerbatim }: Omit<ValueProps, 'json'> & { text: string }): VNode {
  if (isVerbatim) return <span class="text">{text}</span>;
  if (moment.test(text) && !Number.isNaN(Date.parse(text))) return <Ago at={text} />;
  if (isUuid(text)) return <CopyableId id={text} what={label} />;
  const day = dayInWords(text);
  if (day !== undefined) return <time datetime={text}>{day}</time>;
  return <span class="text">{/^\S+@\S+$/.test(text) ? <Email address={text} /> : text}</span>;
}

/** Where it doesn't fit into a line, the next one begins with its `@`. */
export function Email({ address }: { address: string }): VNode {
  const at = Math.max(address.lastIndexOf('@'), 0);
  return (
    <>
      {address.slice(0, at)}
      <wbr />
      {address.slice(at)}
    </>
  );
}

/** An id in full, with a button that copies it. `what` it is the id of, for ears. */
export function CopyableId({ id, what }: { id: string; what: string }): VNode {
  return (
    <span class="copyable">
      <code>{id}</code> <CopyButton text={id} what={what} />
    </span>
  );
}

/** A list of texts and numbers. */
function isFlat(json: string): boolean {
  return json.startsWith('[') && partsOf(json).every((part) => !/^[{[]/.test(part));
}

function plain(json: string): string {
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

/** The fields of an object or the items of a list, each level folded. */
function Level({ json }: { json: string }): VNode {
  const [isOpen, setOpen] = useState(false);
  const follow = (event: Event) => setOpen((event.currentTarget as HTMLDetailsElement).open);
  const fields = membersOf(json);
  // Of many levels only those are laid out that somebody opens.
  return (
    <details class="level" onToggle={follow}>
      <summary>{countOf(fields.length, json.startsWith('{') ? 'field' : 'item')}</summary>
      {isOpen && <Fields fields={fields} />}
    </details>
  );
}

function membersOf(json: string): Field[] {
  if (json.startsWith('{')) return fieldsOf(json);
  return partsOf(json).map((text, i) => ({ name: String(i + 1), text }));
}

/** Names and values of what a supplier has sent. */
function Fields({ fields }: { fields: readonly Field[] }): VNode {
  return (
    <dl class="fields">
      {fields.map(({ name, text }) => (
        <>
          <dt>{labelOf(name)}</dt>
          <dd>
            {isMoney({ name, text: plain(text) }) ? (
              <Amount money={{ amount: plain(text), currency: undefined }} />
            ) : (
              <Value json={text} label={name} isVerbatim />
            )}
          </dd>
        </>
      ))}
    </dl>
  );
}

/** What a supplier has sent: its first level in words, deeper ones folded, and all of it as the text that it is. */
export function Details({ json, title }: { json: string; title: string }): VNode {
  const id = useId();
  const [isRaw, showRaw] = useState(false);
  const inside: ComponentChildren = /^[{[]/.test(json) ? (
    <Fields fields={membersOf(json)} />
  ) : (
    <Value json={json} label={title} isVerbatim />
  );
  return (
    <section class="panel" aria-labelledby={id}>
      <div class="title">
        <h2 id={id}>{title}</h2>
        <button type="button" class="plain" aria-pressed={isRaw} onClick={() => showRaw(!isRaw)}>
          Raw text
        </button>
      </div>
      {isRaw ? (
        <div class="raw">
          <CopyButton text={json} what="the raw text" />
          <Json text={json} label="Raw text" />
        </div>
      ) : (
        inside
      )}
    </section>
  );
}
