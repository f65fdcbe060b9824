import type { Consumer } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { problemFrom } from '../shared/api.ts';
import { hintOf } from '../shared/faults.ts';
import { Field } from '../shared/parts.tsx';
import { read, type Session, useSession, withQuery } from '../shared/session.ts';

/** Who types faster than this is not asked for between two keys. */
const pauseMs = 200;
const suggested = 8;

interface ConsumerField {
  field: VNode;
  /** The id of the consumer that is meant, empty for none; undefined where the field says why there is none. */
  find(): Promise<string | undefined>;
}

/** A text box for a consumer among any number, by its name or id. `id`: the one that is chosen. */
export function useConsumerField(id: string): ConsumerField {
  const session = useSession();
  const [typed, setTyped] = useState(id);
  const [fault, setFault] = useState<string | undefined>();
  const [names, setNames] = useState<readonly string[]>([]);
  const list = useId();
  useEffect(() => {
    setFault(undefined);
    setTyped(id);
    if (id === '') return undefined;
    let isOver = false;
    // One that was revoked has its id only.
    const show = ({ name }: Consumer) => !isOver && setTyped((now) => (now === id ? name : now));
    void read<Consumer>(session, pathOf(id)).then(show, () => undefined);
    return () => {
      isOver = true;
    };
  }, [id]);
  const text = typed.trim();
  useEffect(() => {
    if (text === '' || text === id || names.includes(text)) return undefined;
    let isOver = false;
    const suggest = async () => {
      const found = await search(session, text).catch(() => []);
      if (!isOver) setNames([...new Set(found.map(({ name }) => name))]);
    };
    const timer = setTimeout(() => void suggest(), pauseMs);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text]);
  const find = async () => {
    try {
      const found = await identify(session, text);
      setFault(found.fault);
      return found.id;
    } catch (error) {
      setFault(problemFrom(error).title);
      return undefined;
    }
  };
  const field = (
    <>
      <Field
        label="Consumer"
        value={typed}
        onInput={setTyped}
        placeholder="Name or ID"
        maxLength={100}
        list={list}
        {...hintOf(fault)}
      />
      <datalist id={list}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
  return { field, find };
}

function pathOf(id: string): string {
  return `/v1/admin/consumers/${encodeURIComponent(id)}`;
}

async function search(session: Session, q: string): Promise<Consumer[]> {
  const path = withQuery('/v1/admin/consumers', { q, limit: String(suggested) });
  return (await read<{ data: Consumer[] }>(session, path)).data;
}

/** An id is taken as it is, also that of a consumer that was revoked. */
async function identify(session: Session, text: string): Promise<{ id?: string; fault?: string }> {
  if (text === '' || /^con_\w+$/.test(text)) return { id: text };
  const found = await search(session, text);
  const named = found.filter(({ name }) => name.toLowerCase() === text.toLowerCase());
  const [one, ...others] = named.length > 0 ? named : found;
  if (one === undefined) return { fault: 'No consumers match.' };
  if (others.length > 0) return { fault: 'Several consumers match. Enter the full name or the ID.' };
  return { id: one.id };
}
