import type { VNode } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { dayOf } from '../shared/at-a-glance.tsx';
import { Dialog } from '../shared/dialog.tsx';
import { glance } from '../shared/guess.ts';
import { parseDigits } from '../shared/json-text.ts';
import { Amount } from '../shared/money.tsx';
import { Field, FoldedJson, single } from '../shared/parts.tsx';
import { useSession } from '../shared/session.ts';
import { inWords, relative, useNow } from '../shared/time.tsx';
import { PickPanel } from './pick-panel.tsx';
import { isMade, isOf, type Pick, type Picks, type RecordType } from './picks.ts';
import type { Result } from './results.ts';
import type { Trip } from './trip-form.tsx';
import type { Finding } from './trip-picks.tsx';

interface CardProps {
  result: Result;
  trip: Trip;
  picks: Picks;
  /** The pick that was made last on the whole page. */
  latest: Pick | undefined;
  choice: Choice;
  onChange: (changed: Partial<Result>) => void;
}

/** Whether the result is among those that are handed off together, and what a check has found of it. */
export interface Choice {
  isSelected: boolean;
  findings: readonly Finding[];
  select: (isSelected: boolean) => void;
}

/** A search result: what it is, what to know before the click, and what became of it. */
export function ResultCard({ result, trip, picks, latest, choice, onChange }: CardProps): VNode {
  const { can } = useSession();
  const heading = useId();
  const own = picks.all.filter((pick) => isOf(pick, result.id));
  const types = (['quote', 'booking'] as const).filter((type) => can(`${type}s`, 'write'));
  const now = useNow(10_000);
  const hasEnded = result.validUntil !== undefined && Date.parse(result.validUntil) <= now;
  const made = own.filter((pick) => isMade(pick, result.id));
  const handOff = (type: RecordType) => {
    const chosen = trip.choose();
    if (chosen) void picks.handOff(result, type, chosen.tripId, chosen.memberId);
  };
  const isEarly = trip.isReading && trip.memberId === '';
  return (
    <article aria-labelledby={heading}>
      {!hasEnded && (
        <label class="select">
          <input
            type="checkbox"
            aria-label={`Select ${result.name}`}
            checked={choice.isSelected}
            onChange={(event) => choice.select(event.currentTarget.checked)}
          />
        </label>
      )}
      <Facts result={result} heading={heading} now={now} />
      {choice.findings.map(({ isProblem, text }) => (
        <p class={isProblem ? 'notice bad' : 'notice'}>{text}</p>
      ))}
      {result.isGuessed && <Guesses result={result} onChange={onChange} />}
      <FoldedJson summary="Details" text={result.details} label="Details" />
      {!hasEnded && (
        <Buttons
          types={types}
          own={own}
          made={made}
          name={result.name}
          isEarly={isEarly}
          onHandOff={handOff}
        />
      )}
      {own
        .filter(({ items }) => items === undefined)
        .map((pick) => (
          <PickPanel key={pick.key} pick={pick} picks={picks} isLatest={pick === latest} />
        ))}
    </article>
  );
}

interface ButtonsProps {
  types: RecordType[];
  /** The picks of this result, and those that made something. */
  own: Pick[];
  made: Pick[];
  name: string;
  isEarly: boolean;
  onHandOff: (type: RecordType) => void;
}

/** One for each type; once something was made of the result, one that asks first. */
function Buttons({ types, own, made, name, isEarly, onHandOff }: ButtonsProps): VNode {
  const [isAsking, ask] = useState(false);
  const isSending = (type: RecordType) => own.some((pick) => pick.type === type && pick.state === 'sending');
  const [last] = made;
  const close = () => ask(false);
  const buttons = types.map((type) => (
    <HandOffButton
      key={type}
      text={`Hand off as ${type}`}
      isPrimary={type === types[0]}
      isEarly={isEarly}
      isSending={isSending(type)}
      onClick={() => {
        close();
        onHandOff(type);
      }}
    />
  ));
  if (last === undefined) return <div class="buttons">{buttons}</div>;
  // The button that was pressed keeps its place and the focus.
  return (
    <>
      <div class="buttons">
        <HandOffButton
          key={last.type}
          text="Hand off again…"
          isEarly={isEarly}
          isSending={types.some(isSending)}
          onClick={() => ask(true)}
        />
      </div>
      {isAsking && (
        <Dialog title="Hand off again?" onClose={close}>
          <p>
            <bdi>{name}</bdi> was already handed off as a {last.type}. This creates another record.
          </p>
          <div class="buttons">
            {buttons}
            <button type="button" class="plain" onClick={close}>
              Cancel
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

interface ButtonProps {
  text: string;
  isPrimary?: boolean;
  /** Nobody can have chosen a member yet: a click would be in vain. */
  isEarly: boolean;
  isSending: boolean;
  onClick: () => void;
}

/** It stays focusable while it works, and a double click or a key that is held down counts once. */
function HandOffButton({ text, isPrimary = false, isEarly, isSending, onClick }: ButtonProps): VNode {
  const ignoreRepeats = (event: KeyboardEvent) => {
    if (event.repeat) event.preventDefault();
  };
  return (
    <button
      type="button"
      class={isPrimary ? 'primary' : 'plain'}
      aria-busy={isSending}
      disabled={isEarly}
      onClick={single(onClick)}
      onKeyDown={ignoreRepeats}
    >
      {text}
    </button>
  );
}

interface FactsProps {
  result: Result;
  heading: string;
  now: number;
}

function Facts({ result, heading, now }: FactsProps): VNode {
  const facts = useMemo(() => glance(parseDigits(result.details)), [result.details]);
  const { kind, price, previousPrice, when, timeZone } = facts;
  const expiresAt = result.validUntil === undefined ? facts.expiresAt : Date.parse(result.validUntil);
  return (
    <>
      <div class="result-head">
        <h3 id={heading}>{result.name}</h3>
        <p class="quiet">
          {kind && (
            <>
              <span class="kind">{kind}</span>{' '}
            </>
          )}
          <span class="supplier">{result.source}</span>
          {when && ` · ${dayOf(when, timeZone)}`}
        </p>
        {price && (
          <p class="price">
            <Amount money={price} />
          </p>
        )}
      </div>
      {previousPrice && (
        <p class="notice">
          The price has changed. It was <Amount money={previousPrice} />.
        </p>
      )}
      {expiresAt !== undefined && (
        <Expiry at={expiresAt} now={now} isSure={result.validUntil !== undefined} />
      )}
    </>
  );
}

interface ExpiryProps {
  at: number;
  now: number;
  /** The result says so plainly; else it is a guess, and somebody may know better. */
  isSure: boolean;
}

/** Said before the click: what an expired offer becomes can't be bought. */
function Expiry({ at, now, isSure }: ExpiryProps): VNode {
  const soon = 15 * 60_000;
  if (at <= now) {
    const text = isSure
      ? `This offer expired ${relative(at, now)}. Search again for a new one.`
      : `This offer may have expired ${relative(at, now)}. Check it before you hand it off.`;
    return (
      <p class="notice bad" title={inWords(at)}>
        {text}
      </p>
    );
  }
  return (
    <p class={at - now < soon ? 'notice' : 'quiet'} title={inWords(at)}>
      The offer ends {relative(at, now)}.
    </p>
  );
}

function Guesses({ result, onChange }: GuessesProps): VNode {
  return (
    <fieldset class="guesses">
      <legend>Check the name and supplier. They're our best guess.</legend>
      <Field
        label="Name"
        value={result.name}
        maxLength={255}
        onInput={(name: string) => onChange({ name })}
      />
      <Field
        label="Supplier"
        value={result.source}
        maxLength={255}
        onInput={(source: string) => onChange({ source })}
      />
    </fieldset>
  );
}

interface GuessesProps {
  result: Result;
  onChange: (changed: Partial<Result>) => void;
}
