import type { VNode } from 'preact';
import { useId, useMemo } from 'preact/hooks';
import { html } from '../shared/html.ts';
import { parseDigits } from '../shared/json-text.ts';
import { Field, FoldedJson, single } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { inWords, relative, useNow } from '../shared/time.ts';
import { glance } from './guess.ts';
import { PickPanel } from './pick-panel.ts';
import type { Pick, Picks, RecordType } from './picks.ts';
import type { Result } from './results.ts';
import type { Trip } from './trip-form.ts';

interface CardProps {
  result: Result;
  trip: Trip;
  picks: Picks;
  /** The pick that was made last on the whole page. */
  latest: Pick | undefined;
  onChange: (changed: Partial<Result>) => void;
}

/** A search result: what it is, what to know before the click, and what became of it. */
export function ResultCard({ result, trip, picks, latest, onChange }: CardProps): VNode {
  const { can } = useSession();
  const heading = useId();
  const own = picks.all.filter(({ resultId }) => resultId === result.id);
  const types = (['quote', 'booking'] as const).filter((type) => can(`${type}s`, 'write'));
  return html`<article aria-labelledby=${heading}>
    <${Facts} result=${result} heading=${heading} />
    ${result.isGuessed && html`<${Guesses} result=${result} onChange=${onChange} />`}
    <${FoldedJson} summary="Details" text=${result.details} label="Details" />
    <div class="buttons">
      ${types.map(
        (type) => html`<${HandOffButton} key=${type} type=${type}
          isEarly=${trip.isReading && trip.memberId === ''} isSending=${own.some((pick) => pick.type === type && pick.state === 'sending')}
          onClick=${() => {
            const chosen = trip.choose();
            if (chosen) void picks.handOff(result, type, chosen.tripId, chosen.memberId);
          }} />`,
      )}
    </div>
    ${own.map((pick) => html`<${PickPanel} key=${pick.key} pick=${pick} picks=${picks} isLatest=${pick === latest} />`)}
  </article>`;
}

interface ButtonProps {
  type: RecordType;
  /** Nobody can have chosen a member yet: a click would be in vain. */
  isEarly: boolean;
  isSending: boolean;
  onClick: () => void;
}

/** It stays focusable while it works, and a double click or a key that is held down counts once. */
function HandOffButton({ type, isEarly, isSending, onClick }: ButtonProps): VNode {
  const ignoreRepeats = (event: KeyboardEvent) => {
    if (event.repeat) event.preventDefault();
  };
  return html`<button type="button" class=${type === 'quote' ? 'primary' : 'plain'} aria-busy=${isSending} disabled=${isEarly}
    onClick=${single(onClick)} onKeyDown=${ignoreRepeats}>Hand off as ${type}</button>`;
}

function Facts({ result, heading }: { result: Result; heading: string }): VNode {
  const facts = useMemo(() => glance(parseDigits(result.details)), [result.details]);
  const { kind, price, previousPrice, when, expiresAt } = facts;
  return html`<div class="result-head">
      <div>
        <h3 id=${heading}>${result.name}</h3>
        <p class="quiet">${kind && html`<span class="kind">${kind}</span> `}<span class="supplier">${result.source}</span>${when && ` · ${dayOf(when)}`}</p>
      </div>
      ${price && html`<p class="price">${price}</p>`}
    </div>
    ${previousPrice && html`<p class="notice">The price has changed: it was ${previousPrice}.</p>`}
    ${expiresAt !== undefined && html`<${Expiry} at=${expiresAt} />`}`;
}

/** Said before the click: what an expired offer becomes can't be bought. */
function Expiry({ at }: { at: number }): VNode {
  const now = useNow(10_000);
  const soon = 15 * 60_000;
  if (at <= now)
    return html`<p class="notice bad" title=${inWords(at)}>This offer expired ${relative(at, now)}. Search again before you hand it off.</p>`;
  return html`<p class=${at - now < soon ? 'notice' : 'quiet'} title=${inWords(at)}>The offer ends ${relative(at, now)}.</p>`;
}

/** The day and the time of day as the supplier wrote them: they are those of the place. */
function dayOf(moment: string): string {
  const day = new Date(`${moment.slice(0, 10)}T12:00:00Z`);
  const time = /T(\d\d:\d\d)/.exec(moment)?.[1];
  const text = day.toLocaleDateString(undefined, {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    timeZone: 'UTC',
  });
  return time === undefined ? text : `${text}, ${time}`;
}

function Guesses({ result, onChange }: GuessesProps): VNode {
  return html`<fieldset class="guesses">
    <legend>Name and supplier are guessed. Correct them here.</legend>
    <${Field} label="Name" value=${result.name} maxLength=${255} onInput=${(name: string) => onChange({ name })} />
    <${Field} label="Supplier" value=${result.source} maxLength=${255} onInput=${(source: string) => onChange({ source })} />
  </fieldset>`;
}

interface GuessesProps {
  result: Result;
  onChange: (changed: Partial<Result>) => void;
}
