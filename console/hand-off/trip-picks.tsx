import type { HandoffCheck } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { withCrmName } from '../shared/page-facts.ts';
import { ProblemAlert, single } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { type Picks, type RecordType, tripBodyOf } from './picks.ts';
import type { Result } from './results.ts';
import type { Trip } from './trip-form.tsx';

/** The service takes no more at once. */
const mostItems = 25;

/** Found by a check before anything was written. */
export interface Finding {
  /** With it the hand-off would be refused; else somebody may want to know. */
  isProblem: boolean;
  text: string;
}

interface Findings {
  /** The request that was checked: another one has to be checked itself. */
  body: string;
  type: RecordType;
  /** By result. */
  ofResults: ReadonlyMap<string, Finding[]>;
  /** About the member or the trip. */
  others: Finding[];
}

/** Several results that go together: which are chosen, and what a check has found. */
export function useTripPicks(results: readonly Result[], trip: Trip, picks: Picks) {
  const { send } = useSession();
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [found, setFound] = useState<Findings | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isChecking, setChecking] = useState(false);
  const chosen = results.filter(({ id }) => ids.has(id));
  const findings = found?.body === bodyOf(found?.type) ? found : undefined;

  function bodyOf(type: RecordType | undefined): string | undefined {
    return type && tripBodyOf(chosen, type, trip.tripId.trim(), trip.memberId.trim());
  }

  const select = (id: string, isSelected: boolean) => {
    const next = new Set(ids);
    if (isSelected) next.add(id);
    else next.delete(id);
    setIds(next);
  };
  const handOff = async (type: RecordType) => {
    const { tripId, memberId } = trip.choose() ?? {};
    if (tripId === undefined || memberId === undefined || isChecking) return;
    setProblem(undefined);
    const body = tripBodyOf(chosen, type, tripId, memberId);
    if (!isWorthAnother(findings, type)) {
      setChecking(true);
      const checked = await send('/api/v1/handoffs/check', { method: 'POST', body }).then(
        ({ text }) => JSON.parse(text) as HandoffCheck,
        (error: unknown) => {
          const failed = problemFrom(error);
          // What can't be checked while the CRM is down is accepted nevertheless.
          return failed.status >= 500 ? unchecked : setProblem(failed);
        },
      );
      setChecking(false);
      if (!checked) return;
      const all = { body, type, ...sorted(checked, chosen) };
      setFound(all);
      if (all.others.length > 0 || all.ofResults.size > 0) return;
    }
    setFound(undefined);
    setIds(new Set());
    void picks.handOffTrip(chosen, type, tripId, memberId);
  };
  return { chosen, findings, problem, isChecking, select, handOff, clear: () => setIds(new Set()) };
}

const unchecked: HandoffCheck = { ok: true, problems: [], warnings: [] };

/** Somebody has seen the warnings of this very request, and goes on. */
function isWorthAnother(findings: Findings | undefined, type: RecordType): boolean {
  return findings !== undefined && findings.type === type && !hasProblem(findings);
}

function hasProblem({ others, ofResults }: Findings): boolean {
  return [...others, ...[...ofResults.values()].flat()].some(({ isProblem }) => isProblem);
}

/** Each finding at the result that it is about. */
function sorted({ problems, warnings }: HandoffCheck, chosen: readonly Result[]) {
  const ofResults = new Map<string, Finding[]>();
  const others: Finding[] = [];
  const add = (pointer: string, { text: said, ...rest }: Finding) => {
    const finding = { ...rest, text: withCrmName(said) };
    const result = chosen[Number(/^#\/items\/(\d+)(\/|$)/.exec(pointer)?.[1])];
    const list = result ? (ofResults.get(result.id) ?? []) : others;
    if (!list.some(({ text }) => text === finding.text)) list.push(finding);
    if (result) ofResults.set(result.id, list);
  };
  for (const { detail, errors } of problems) {
    if (errors.length === 0) add('', { isProblem: true, text: detail });
    for (const { pointer = '', message } of errors as { pointer?: string; message: string }[])
      add(pointer, { isProblem: true, text: message });
  }
  // A card tells by itself that its offer ends soon, and that is a reason to hurry.
  for (const { pointer, detail, code } of warnings)
    if (code !== 'offer_ends_soon') add(pointer, { isProblem: false, text: detail });
  return { ofResults, others };
}

interface BarProps {
  selection: ReturnType<typeof useTripPicks>;
  types: readonly RecordType[];
}

/** Nothing while no result is selected. */
export function SelectionBar({ selection, types }: BarProps): VNode | null {
  const { chosen, findings, problem, isChecking, handOff, clear } = selection;
  if (chosen.length === 0) return null;
  const { length: count } = chosen;
  const isBlocked = findings !== undefined && hasProblem(findings);
  return (
    <section class="selection" aria-label="Selected results">
      {problem && <ProblemAlert problem={problem} isAnswer />}
      {findings && <Summary findings={findings} />}
      {count > mostItems && (
        <p class="notice bad" role="alert">
          You can hand off at most {mostItems} results together. Deselect {count - mostItems}.
        </p>
      )}
      <div class="buttons">
        <span>{count} selected</span>
        {types.map((type, i) => (
          <button
            key={type}
            type="button"
            class={i === 0 ? 'primary' : 'plain'}
            aria-busy={isChecking}
            disabled={count > mostItems || (isBlocked && findings?.type === type)}
            onClick={single(() => void handOff(type))}
          >
            {findings?.type === type && !isBlocked
              ? 'Hand off anyway'
              : `Hand off ${count} as ${type}${count === 1 ? '' : 's'}`}
          </button>
        ))}
        <button type="button" class="link" onClick={clear}>
          Clear selection
        </button>
      </div>
    </section>
  );
}

function Summary({ findings }: { findings: Findings }): VNode {
  const isBlocked = hasProblem(findings);
  return (
    <div class={isBlocked ? 'notice bad' : 'notice'} role="alert">
      <p>
        {isBlocked
          ? 'Nothing was handed off. Fix what the check found, or deselect those results.'
          : 'Nothing was handed off yet. Read what the check found, then continue or change your selection.'}
      </p>
      {findings.others.map(({ text }) => (
        <p>{text}</p>
      ))}
    </div>
  );
}
