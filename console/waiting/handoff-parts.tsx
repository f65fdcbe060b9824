import type { AcceptedHandoff } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { type Maker, MakerName } from '../records/maker.tsx';
import { fieldOf } from '../shared/json-text.ts';

/** Who asked for it; whether a person has signed in, or a program only says who it was. */
export function AskedBy({ maker }: { maker: Maker | null | undefined }): VNode {
  return (
    <>
      <MakerName maker={maker} />
      {maker?.actor && (
        <>
          {' '}
          <span class={maker.verified ? 'badge good' : 'badge'}>
            {maker.verified ? 'verified' : 'not verified'}
          </span>
        </>
      )}
    </>
  );
}

/** The details of a single hand-off as they stand in its answer; undefined where it has none any more. */
export function detailsIn(answer: string): string | undefined {
  const inside = (json: string | undefined, name: string) =>
    json?.startsWith('{') ? fieldOf(json, name) : undefined;
  return ['request', 'result', 'details'].reduce<string | undefined>(inside, answer);
}

/** Stands in for the name of a hand-off that has none any more. */
export function wordOf({ type }: Pick<AcceptedHandoff, 'type'>): string {
  return type === 'quote' ? 'Quote' : 'Booking';
}

/** The state as a word; a hand-off that is accepted waits. */
export function stateOf({ status }: Pick<AcceptedHandoff, 'status'>): string {
  return status === 'accepted' ? 'waiting' : status;
}
