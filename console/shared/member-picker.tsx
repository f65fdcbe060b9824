import type { Member } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from './api.ts';
import { remember, sortedName, useMembers } from './members.ts';
import { ProblemAlert } from './parts.tsx';
import { useSession } from './session.ts';
import { isUuid } from './uuid.ts';

interface PickerProps {
  /** External ID of the chosen member; empty where nobody is chosen. */
  memberId: string;
  onChange: (memberId: string) => void;
  /** Shown before anything is typed. */
  suggested?: readonly Member[] | undefined;
}

/** How many members are shown at once, and asked for. */
const shownMembers = 8;
/** The service takes no shorter text. */
const shortest = 2;
/** Who types faster than this is not asked for between two keys. */
const pauseMs = 200;

/**
 * Finds a member among any number by a part of the name, the e-mail address or the telephone number, or takes an External
 * ID. What is typed chooses nobody before a member of the list is taken, so that nothing goes to the one before by mistake.
 */
export function MemberPicker({ memberId, onChange, suggested = [] }: PickerProps): VNode {
  const id = useId();
  /** What was typed since somebody was chosen. */
  const [typed, setTyped] = useState('');
  const chosen = useMembers([memberId])(memberId);
  // What is chosen elsewhere on the page replaces what was typed.
  const text = memberId === '' || memberId === typed.trim() ? typed.trim() : '';
  const search = useMemberSearch(text);
  const options = (text === '' ? suggested : search.found).slice(0, shownMembers);
  const list = useListbox(options, (member) => {
    onChange(member.id);
    setTyped('');
  });
  const type = (event: Event) => {
    const { value } = event.currentTarget as HTMLInputElement;
    setTyped(value);
    onChange(isUuid(value.trim()) ? value.trim() : '');
    list.restart();
  };
  const { isShown, active } = list;
  const box = useRef<HTMLInputElement>(null);
  const shown = text === '' ? nameOrId(memberId, chosen) : undefined;
  useLayoutEffect(() => {
    // A name that comes while somebody is about to type.
    if (shown && document.activeElement === box.current) box.current?.select();
  }, [shown]);
  return (
    <div class="field picker">
      <label for={id}>Member</label>
      <input
        id={id}
        ref={box}
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={isShown}
        aria-controls={`${id}-list`}
        aria-activedescendant={isShown ? `${id}-${active}` : undefined}
        aria-describedby={`${id}-hint`}
        autocomplete="off"
        spellcheck={false}
        maxLength={100}
        placeholder="Part of a name, e-mail or phone"
        value={shown ?? typed}
        onInput={type}
        onFocus={selectAll}
        {...list.handlers}
      />
      <ul id={`${id}-list`} role="listbox" aria-label="Members" hidden={!isShown}>
        {isShown &&
          options.map((one, i) => (
            <Option
              key={one.id}
              id={`${id}-${i}`}
              member={one}
              isActive={i === active}
              onChoose={list.choose}
            />
          ))}
      </ul>
      <p class="hint" id={`${id}-hint`} aria-live="polite">
        {hintOf(text, search, chosen)}
      </p>
      {search.problem && (
        <ProblemAlert problem={search.problem}>
          <p>You can still enter a member's External ID.</p>
        </ProblemAlert>
      )}
    </div>
  );
}

/** A list below a text box, which keeps the focus: arrow keys, Enter, Escape, and the pointer. */
function useListbox(options: readonly Member[], onChoose: (member: Member) => void) {
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const isShown = isOpen && options.length > 0;
  const choose = (member: Member | undefined) => {
    setOpen(false);
    if (member) onChoose(member);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    const act = isShown ? actions[key] : openers.includes(key) && (() => setOpen(true));
    if (!act) return;
    event.preventDefault();
    act();
  };
  const actions: Record<string, () => void> = {
    ArrowDown: () => setActive((active + 1) % options.length),
    ArrowUp: () => setActive((active + options.length - 1) % options.length),
    Enter: () => choose(options[active]),
    Escape: () => setOpen(false),
  };
  const restart = () => {
    setActive(0);
    setOpen(true);
  };
  const handlers = { onKeyDown, onClick: restart, onBlur: () => setOpen(false) };
  return { isShown, active, choose, restart, handlers };
}

const openers = ['ArrowDown', 'ArrowUp'];

function nameOrId(memberId: string, member: Member | undefined): string {
  return member === undefined ? memberId : sortedName(member);
}

/** The next key replaces all of it. */
function selectAll(event: Event): void {
  (event.currentTarget as HTMLInputElement).select();
}

interface OptionProps {
  id: string;
  member: Member;
  isActive: boolean;
  onChoose: (member: Member) => void;
}

function Option({ id, member, isActive, onChoose }: OptionProps): VNode {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isActive) item.current?.scrollIntoView({ block: 'nearest' });
  }, [isActive]);
  // The text box keeps the focus.
  const stay = (event: Event) => event.preventDefault();
  return (
    <li
      id={id}
      ref={item}
      role="option"
      aria-selected={isActive}
      onMouseDown={stay}
      onClick={() => onChoose(member)}
    >
      <strong>{sortedName(member)}</strong>{' '}
      <span class="quiet">{[member.email, member.phone].filter(Boolean).join(' · ')}</span>
    </li>
  );
}

function hintOf(text: string, search: Search, chosen: Member | undefined): string {
  if (isUuid(text)) return chosen === undefined ? 'External ID' : sortedName(chosen);
  if (text === '') return chosen?.email ?? '';
  if (!isLongEnough(text)) return 'Type at least two letters.';
  return search.answered === text ? countOf(search) : 'Searching…';
}

function countOf({ found: { length }, hasMore, problem }: Search): string {
  if (problem) return '';
  if (length === 0) return 'No members match.';
  if (hasMore) return `Showing the first ${length} matches. Type more to narrow the list.`;
  return length === 1 ? '1 member' : `${length} members`;
}

interface Search {
  found: readonly Member[];
  hasMore: boolean;
  /** The text that it is the answer for. */
  answered: string;
  problem: Problem | undefined;
}

const nothing: Search = { found: [], hasMore: false, answered: '', problem: undefined };

/** One request at a time: however much is typed meanwhile, the next one is for the last text. Older answers are not shown. */
function useMemberSearch(text: string): Search {
  const session = useSession();
  const [search, setSearch] = useState(nothing);
  const latest = useRef(text);
  const isAsking = useRef(false);
  const answered = useRef('');
  latest.current = text;
  const ask = async () => {
    const asked = latest.current;
    if (isAsking.current || asked === answered.current || !isSearched(asked)) return;
    isAsking.current = true;
    const answer = await session.client.members
      .list({ q: asked, limit: shownMembers })
      .page()
      .then(
        ({ data, has_more }) => ({ found: data, hasMore: has_more, problem: undefined }),
        (error: unknown) => ({ found: [], hasMore: false, problem: problemFrom(error) }),
      );
    isAsking.current = false;
    remember(session, answer.found);
    if (latest.current === asked) {
      answered.current = answer.problem ? '' : asked;
      setSearch({ ...answer, answered: asked });
    } else void ask();
  };
  useEffect(() => {
    const timer = setTimeout(() => void ask(), pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return search.answered === text ? search : nothing;
}

function isSearched(text: string): boolean {
  return isLongEnough(text) && !isUuid(text);
}

/** In characters, as the service counts. */
function isLongEnough(text: string): boolean {
  return [...text].length >= shortest;
}
