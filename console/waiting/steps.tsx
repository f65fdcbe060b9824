import type { AcceptedHandoff, HistoryEntry } from '@handoff-gateway/client';
import type { ComponentChildren, VNode } from 'preact';
import { Doer, Endpoint } from '../records/history.tsx';
import { crmName, withCrmName } from '../shared/page-facts.ts';
import { Ago, duration } from '../shared/time.tsx';
import { Attempts } from './attempts.tsx';
import type { Life } from './read-handoff.ts';

interface Step {
  title: ComponentChildren;
  /** `now` is under way, `ahead` has still to come. */
  tone: 'good' | 'bad' | 'now' | 'ahead' | 'past';
  /** RFC 3339; undefined where the time isn't known. */
  at?: string | null | undefined;
  note?: ComponentChildren;
}

/** The life of a hand-off from top to bottom, also what has still to come, with the times between the steps. */
export function Steps({ life }: { life: Life }): VNode {
  const steps = stepsOf(life);
  return (
    <section class="panel history" aria-label="Progress">
      <h2>Progress</h2>
      <ol class="timeline">
        {steps.map(({ title, tone, at, note }, i) => (
          <li class={tone} aria-current={tone === 'now' ? 'step' : undefined}>
            <p>{tone === 'ahead' ? <span class="quiet">{title}</span> : title}</p>
            {note}
            {at && (
              <p class="hint">
                <Ago at={at} />
                <Since at={at} before={steps.slice(0, i).findLast((one) => one.at)?.at} />
              </p>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** How long after the step before it. */
function Since({ at, before }: { at: string; before: string | null | undefined }): VNode | null {
  if (!before) return null;
  return <> · {duration(Date.parse(at) - Date.parse(before))} later</>;
}

function stepsOf({ handoff, history, subject }: Life): Step[] {
  const by = history.find(({ kind }) => kind === 'requested')?.by ?? subject?.maker ?? null;
  const begin: Step = {
    title: (
      <>
        Handed off by <Doer by={by && { ...by, verified: by.verified === true }} />
      </>
    ),
    tone: 'good',
    at: handoff.accepted_at,
  };
  const steps = [
    begin,
    ...approvalSteps(handoff),
    ...failuresBefore(handoff, history),
    ...sentSteps(handoff),
    endOf(handoff),
    ...deliveries(history),
  ];
  // What has a time stands in the order of the times; what has none stays after what it follows from.
  const end = handoff.completed_at ?? undatedLast;
  return steps
    .map((step) => ({ step, order: step.at ?? end }))
    .toSorted((one, other) => (one.order < other.order ? -1 : Number(one.order > other.order)))
    .map(({ step }) => step);
}

/** Later than any time. */
const undatedLast = '~';

function approvalSteps({ status, approval }: AcceptedHandoff): Step[] {
  if (approval === null) return [];
  const { decided_by, decided_at, reason } = approval;
  const byWhom = decided_by && (
    <>
      {' '}
      by <Doer by={decided_by} />
    </>
  );
  if (approval.status === 'approved') return [{ title: <>Approved{byWhom}</>, tone: 'good', at: decided_at }];
  if (approval.status === 'rejected')
    return [
      { title: <>Rejected{byWhom}</>, tone: 'bad', at: decided_at, note: <p class="quiet">{reason}</p> },
    ];
  if (approval.status === 'expired') return [{ title: 'No decision in time', tone: 'bad' }];
  return [{ title: 'Waiting for approval', tone: status === 'awaiting_approval' ? 'now' : 'past' }];
}

/** It was tried again since. */
function failuresBefore({ status }: AcceptedHandoff, history: readonly HistoryEntry[]): Step[] {
  const failed = history.filter(({ kind }) => kind === 'failed');
  const before = status === 'failed' ? failed.slice(0, -1) : failed;
  return before.map(({ at }) => ({ title: 'Failed, then retried', tone: 'bad', at }));
}

function sentSteps(handoff: AcceptedHandoff): Step[] {
  const { status, attempts } = handoff;
  const title = `Sent to ${crmName}`;
  const note = <Attempts handoff={handoff} />;
  if (status === 'awaiting_approval') return [{ title, tone: 'ahead' }];
  if (status === 'accepted' && attempts === 0)
    return [{ title: `Waiting to be sent to ${crmName}`, tone: 'now' }];
  if (status === 'accepted') return [{ title: `Sending to ${crmName}`, tone: 'now', note }];
  return attempts === 0 ? [] : [{ title, tone: status === 'created' ? 'good' : 'past', note }];
}

function endOf({ status, completed_at: at, problem }: AcceptedHandoff): Step {
  if (status === 'created') return { title: `Created in ${crmName}`, tone: 'good', at };
  if (status === 'cancelled') return { title: 'Withdrawn', tone: 'bad', at };
  if (status === 'rejected') return { title: 'Not created', tone: 'bad' };
  if (status !== 'failed') return { title: `Created in ${crmName}`, tone: 'ahead' };
  const note = problem && (
    <>
      <p>
        <strong>{withCrmName(problem.title)}</strong>
      </p>
      <p class="quiet">{withCrmName(problem.detail)}</p>
    </>
  );
  return { title: 'Failed', tone: 'bad', at, note };
}

function deliveries(history: readonly HistoryEntry[]): Step[] {
  return history
    .filter(({ kind }) => kind === 'delivered' || kind === 'delivery_failed')
    .map(({ kind, at, endpoint }) => ({
      title: (
        <>
          {kind === 'delivered' ? 'Event delivered to' : 'Event not delivered to'} <Endpoint id={endpoint} />
        </>
      ),
      tone: kind === 'delivered' ? 'good' : 'bad',
      at,
    }));
}
