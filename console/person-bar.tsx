import type { VNode } from 'preact';
import { actAs, type PersonSession } from './shared/person.ts';
import { type OwnConsumer, useSession } from './shared/session.ts';
import { countOf } from './shared/words.ts';

interface WhoProps {
  consumer: OwnConsumer;
  /** Undefined where a key is used. */
  person: PersonSession | undefined;
}

/** Who is signed in, and as what: a person with several consumers changes between them here. */
export function Who({ consumer, person }: WhoProps): VNode {
  const { approvals, say } = useSession();
  const change = async (select: HTMLSelectElement) => {
    const wanted = select.value;
    const stay = (why: string) => {
      approvals.stay();
      select.value = consumer.id;
      say(`You're still acting as ${consumer.name}. ${why}`);
    };
    if (person === undefined) return;
    // Before: they are approvals of the consumer that is left.
    const failed = await approvals.leave();
    const why = failed === undefined ? await actAs(wanted, person) : `${failed.title}.`;
    if (why !== undefined) stay(why);
  };
  if (person === undefined)
    return (
      <span class="who" title={consumer.id}>
        {consumer.name}
      </span>
    );
  const { name, email } = person.person;
  const others = person.consumers.length > 1;
  return (
    <span class="who" title={email ?? name}>
      {name} as{' '}
      {others ? (
        <select
          aria-label="Act as"
          value={consumer.id}
          onChange={(event: Event) => void change(event.currentTarget as HTMLSelectElement)}
        >
          {person.consumers.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name}
            </option>
          ))}
        </select>
      ) : (
        <span title={consumer.id}>{consumer.name}</span>
      )}
    </span>
  );
}

/** Says that somebody who does nothing is about to be signed out; any key or click keeps the session. */
export function PersonStrip({ seconds }: { seconds: number }): VNode {
  return (
    <div class="band" role="alert">
      <p>
        You'll be signed out in {countOf(seconds, 'second')}. <button type="button">Stay signed in</button>
      </p>
    </div>
  );
}
