import type { AcceptedHandoff, Member } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { type ConsolePage, findPage } from './pages.ts';
import { Dialog } from './shared/dialog.tsx';
import { memberName } from './shared/members.ts';
import { single } from './shared/parts.tsx';
import { read, type Session, useSession, withQuery } from './shared/session.ts';
import { isUuid } from './shared/uuid.ts';

interface Finding {
  /** `Page`, `Quote`. */
  kind: string;
  name: string;
  /** Tells entries of one name apart. */
  note?: string | null | undefined;
  href: string;
}

/** Who types faster than this is not asked for between two keys. */
const pauseMs = 200;
const mostOfAKind = 5;

/** Opens the palette, by a click or Ctrl+K; on a Mac Command+K. */
export function Finder({ allowed }: { allowed: readonly ConsolePage[] }): VNode {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const follow = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      // A question that is open has to be answered first.
      if (document.querySelector('dialog[open]') === null) setOpen(true);
    };
    addEventListener('keydown', follow);
    return () => removeEventListener('keydown', follow);
  }, []);
  return (
    <>
      <button
        type="button"
        class="find"
        aria-keyshortcuts="Control+K Meta+K"
        onClick={single(() => setOpen(true))}
      >
        Find… <kbd aria-hidden="true">{isMac ? '⌘' : 'Ctrl '}K</kbd>
      </button>
      {isOpen && <Palette allowed={allowed} onClose={() => setOpen(false)} />}
    </>
  );
}

const isMac = /Mac|iP(hone|ad)/.test(navigator.userAgent);

interface PaletteProps {
  allowed: readonly ConsolePage[];
  onClose: () => void;
}

/** Finds a page, a member, a record, a trip, a consumer or a request, and leads there. */
function Palette({ allowed, onClose }: PaletteProps): VNode {
  const id = useId();
  const [typed, setTyped] = useState('');
  const [active, setActive] = useState(0);
  const text = typed.trim();
  const search = useSearch(text, allowed);
  const findings = [...pagesNamed(text, allowed), ...search.findings];
  const go = (finding: Finding | undefined) => {
    if (finding === undefined) return;
    onClose();
    location.hash = finding.href;
  };
  const keys: Record<string, () => void> = {
    ArrowDown: () => setActive((active + 1) % Math.max(1, findings.length)),
    ArrowUp: () => setActive((active + findings.length - 1) % Math.max(1, findings.length)),
    Enter: () => go(findings[active]),
  };
  return (
    <Dialog title="Find" onClose={onClose} look="palette">
      <input
        role="combobox"
        aria-label="Find"
        aria-expanded={findings.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={findings[active] && `${id}-${active}`}
        placeholder="A page, name, e-mail address, or ID"
        autocomplete="off"
        spellcheck={false}
        maxLength={128}
        value={typed}
        onInput={({ currentTarget }) => {
          setTyped(currentTarget.value);
          setActive(0);
        }}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (act === undefined) return;
          event.preventDefault();
          act();
        }}
      />
      <ul id={`${id}-list`} class="findings" role="listbox" aria-label="Found">
        {findings.map((finding, i) => (
          <Option
            key={`${finding.kind} ${finding.href}`}
            id={`${id}-${i}`}
            finding={finding}
            isActive={i === active}
            onChoose={() => go(finding)}
          />
        ))}
      </ul>
      <p class="hint" aria-live="polite">
        {search.isSearching ? 'Searching…' : findings.length === 0 && 'Nothing found.'}
      </p>
    </Dialog>
  );
}

interface OptionProps {
  id: string;
  finding: Finding;
  isActive: boolean;
  onChoose: () => void;
}

function Option({ id, finding: { kind, name, note }, isActive, onChoose }: OptionProps): VNode {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isActive) item.current?.scrollIntoView({ block: 'nearest' });
  }, [isActive]);
  return (
    <li id={id} ref={item} role="option" aria-selected={isActive} onClick={onChoose}>
      <span>
        <bdi>{name}</bdi> {note && <span class="quiet">{note}</span>}
      </span>
      <span class="quiet">{kind}</span>
    </li>
  );
}

function pagesNamed(text: string, allowed: readonly ConsolePage[]): Finding[] {
  return allowed
    .filter(({ path, title }) => findPage(allowed, [path]) !== 'unknown' && contains(title, text))
    .map(({ path, title }) => ({ kind: 'Page', name: title, href: `#/${path}` }));
}

function contains(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}

interface Search {
  text: string;
  findings: readonly Finding[];
}

/** Gives each kind as it comes, and nothing of an earlier text. */
function useSearch(text: string, allowed: readonly ConsolePage[]) {
  const session = useSession();
  const [{ text: answered, findings }, setSearch] = useState<Search>({ text: '', findings: [] });
  const [isSearching, setSearching] = useState(false);
  useEffect(() => {
    if ([...text].length < 2) return setSearching(false);
    let isOver = false;
    const find = async () => {
      const searches = searchesFor(text, session, allowed).map(async (asked) => {
        // One that cannot be answered now does not hide what the others find.
        const more = await asked.catch(() => []);
        if (!isOver)
          setSearch((before) => ({
            text,
            findings: [...(before.text === text ? before.findings : []), ...more],
          }));
      });
      await Promise.all(searches);
      if (!isOver) setSearching(false);
    };
    setSearching(true);
    const timer = setTimeout(() => void find(), pauseMs);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text, session]);
  return { findings: answered === text ? findings : [], isSearching };
}

function searchesFor(text: string, session: Session, allowed: readonly ConsolePage[]): Promise<Finding[]>[] {
  const { can } = session;
  const collections = (['members', 'quotes', 'bookings'] as const).filter((one) => can(one, 'read'));
  return [
    ...collections.map((one) =>
      isUuid(text) ? findOne(session, one, text) : findRecords(session, one, text),
    ),
    ...(isUuid(text) ? [findTrip(session, text, allowed), findHandoff(session, text)] : []),
    ...(can('consumers', 'read') ? [findConsumers(session, text), findRequest(session, text)] : []),
  ];
}

type Collection = 'members' | 'quotes' | 'bookings';
interface Row {
  id: string;
  name?: string | null;
  source?: string | null;
  email?: string | null;
  first_name?: string | null;
  last_name?: string | null;
}

const kinds: Record<Collection, string> = { members: 'Member', quotes: 'Quote', bookings: 'Booking' };

function shownAs(collection: Collection, row: Row): Finding {
  return {
    kind: kinds[collection],
    name: collection === 'members' ? memberName(row as Member) : row.name || 'Unnamed',
    note: collection === 'members' ? row.email : row.source,
    href: `#/records/${collection}/${row.id}`,
  };
}

async function findRecords(session: Session, collection: Collection, q: string): Promise<Finding[]> {
  const path = withQuery(`/v1/${collection}`, { q, limit: String(mostOfAKind) });
  return (await read<{ data: Row[] }>(session, path)).data.map((row) => shownAs(collection, row));
}

async function findOne(session: Session, collection: Collection, id: string): Promise<Finding[]> {
  return [shownAs(collection, await read<Row>(session, `/v1/${collection}/${id}`))];
}

async function findTrip(session: Session, id: string, allowed: readonly ConsolePage[]): Promise<Finding[]> {
  const own = `#/trips/${id}`;
  const href = leadsTo(own, allowed) ? own : `#/records/quotes?trip_id=${id}`;
  await read(session, `/v1/trips/${id}`);
  return [{ kind: 'Trip', name: id, href }];
}

async function findHandoff(session: Session, id: string): Promise<Finding[]> {
  const { request, type } = await read<AcceptedHandoff>(session, `/v1/handoffs/${id}`);
  return [{ kind: 'Hand-off', name: request?.result.name ?? id, note: type, href: `#/handoffs/${id}` }];
}

async function findConsumers(session: Session, q: string): Promise<Finding[]> {
  const path = withQuery('/v1/admin/consumers', { q, limit: String(mostOfAKind) });
  const { data } = await read<{ data: Row[] }>(session, path);
  return data.map(({ id, name }) => ({
    kind: 'Consumer',
    name: name ?? id,
    note: id,
    href: `#/consumers/${id}`,
  }));
}

interface Attempt {
  request_id: string;
  endpoint: string;
  result: string;
}

async function findRequest(session: Session, text: string): Promise<Finding[]> {
  if (!/^[\w.-]{8,128}$/.test(text)) return [];
  const path = withQuery('/v1/admin/auth-attempts', { request_id: text, limit: '1' });
  return (await read<{ data: Attempt[] }>(session, path)).data.map(({ endpoint, result }) => ({
    kind: 'Request',
    name: endpoint,
    note: result.replaceAll('_', ' '),
    href: `#/access-log?request_id=${encodeURIComponent(text)}`,
  }));
}

function leadsTo(href: string, allowed: readonly ConsolePage[]): boolean {
  return typeof findPage(allowed, href.slice(2).split('/')) === 'object';
}
