import type { AcceptedHandoff, HandoffClient } from '@handoff-gateway/client';
import { type Problem, problemFrom } from './api.ts';

/** For so long an approval can be taken back: it isn't sent before. */
const undoMs = 5000;
/** For so long somebody who signs out, or acts as another consumer, waits for answers. */
const leaveMs = 4000;

interface Approval {
  /** As it was seen: nothing else is approved. */
  handoff: AcceptedHandoff;
  /** Milliseconds since 1970. */
  sentAt: number;
  timer: ReturnType<typeof setTimeout>;
  /** Resolves to what went wrong. */
  answer?: Promise<Problem | undefined>;
}

/** A page that shows approvals. */
export interface Follower {
  changed(): void;
  /** One was answered; `problem` where it failed. The page reads again what it shows. */
  answered(id: string, problem: Problem | undefined): Promise<void>;
}

interface ApprovalsOptions {
  client: Pick<HandoffClient, 'handoffs'>;
  say: (text: string) => void;
}

/**
 * Approvals that somebody can still take back, for five seconds each. Who leaves the page, closes the tab or signs out has decided:
 * they are sent at once then.
 */
export class Approvals {
  readonly #options: ApprovalsOptions;
  /** By External ID, the oldest first. */
  readonly #all = new Map<string, Approval>();
  #page: Follower | undefined;
  #isLeaving = false;

  constructor(options: ApprovalsOptions) {
    this.#options = options;
  }

  /** Returns what ends it. */
  watch(): () => void {
    const send = () => void this.sendAll();
    addEventListener('pagehide', send);
    return () => removeEventListener('pagehide', send);
  }

  /** Returns what the page calls when it is left. */
  follow(page: Follower): () => void {
    this.#page = page;
    return () => {
      this.#page = undefined;
      void this.sendAll();
    };
  }

  approve(handoff: AcceptedHandoff): void {
    const id = handoff.external_id;
    if (this.#all.has(id)) return;
    if (this.#isLeaving) {
      // By the time it is sent, the session may be another consumer's, or have ended.
      this.#options.say(
        `Didn't approve ${handoffName(handoff)}, because you're leaving. It's still waiting.`,
      );
      return;
    }
    const timer = setTimeout(() => void this.#send(id), undoMs);
    this.#all.set(id, { handoff, sentAt: Date.now() + undoMs, timer });
    this.#options.say(`Approving ${handoffName(handoff)} in ${undoMs / 1000} seconds unless you undo it.`);
    this.#page?.changed();
  }

  /** Does nothing once the approval is on its way. */
  undo(id: string): void {
    const found = this.#all.get(id);
    if (found === undefined || found.answer) return;
    clearTimeout(found.timer);
    this.#all.delete(id);
    this.#options.say(`Didn't approve ${handoffName(found.handoff)}. It's still waiting.`);
    this.#page?.changed();
  }

  /** Whether all are answered. */
  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** Returns the id of the newest one that can be taken back. */
  latest(): string | undefined {
    return [...this.#all].findLast(([, { answer }]) => answer === undefined)?.[0];
  }

  /** Undefined where the hand-off isn't being approved; without `undoUntil` once the approval is on its way. */
  stateOf(id: string): { undoUntil: number | undefined } | undefined {
    const found = this.#all.get(id);
    return found && { undoUntil: found.answer ? undefined : found.sentAt };
  }

  /** Resolves, once all are answered, to what went wrong with the first that failed. */
  async sendAll(): Promise<Problem | undefined> {
    const problems = await Promise.all([...this.#all.keys()].map((id) => this.#send(id)));
    return problems.find((problem) => problem !== undefined);
  }

  /**
   * Sends all before somebody signs out, and takes no more; resolves to what they have to know, which may be that no answer came in
   * time.
   */
  async leave(): Promise<Problem | undefined> {
    this.#isLeaving = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<Problem>((resolve) => {
      timer = setTimeout(() => resolve(unanswered([...this.#all.values()])), leaveMs);
    });
    const sent = this.sendAll().then(
      (failed) => failed && { ...failed, title: `Your last approval failed: ${failed.title}` },
    );
    return Promise.race([sent, late]).finally(() => clearTimeout(timer));
  }

  /** Takes approvals again, once leaving has failed. */
  stay(): void {
    this.#isLeaving = false;
  }

  async #send(id: string): Promise<Problem | undefined> {
    const approval = this.#all.get(id);
    if (approval === undefined) return undefined;
    clearTimeout(approval.timer);
    approval.answer ??= this.#request(approval.handoff);
    this.#page?.changed();
    return approval.answer;
  }

  async #request(handoff: AcceptedHandoff): Promise<Problem | undefined> {
    const { external_id: id, version } = handoff;
    const { client, say } = this.#options;
    const problem = await client.handoffs
      .approve(id, { ifMatch: `"${version}"` })
      .then(() => undefined, problemFrom);
    const name = handoffName(handoff);
    const failed = problem && { ...problem, title: `Couldn't approve ${name}: ${problem.title}` };
    say(failed === undefined ? `Approved ${name}.` : `${failed.title}.`);
    await this.#page?.answered(id, failed);
    this.#all.delete(id);
    this.#page?.changed();
    return problem;
  }
}

function unanswered(approvals: readonly Approval[]): Problem {
  const names = approvals.map(({ handoff }) => handoffName(handoff));
  return {
    title: `Your approval of ${new Intl.ListFormat('en').format(names)} may not have gone through`,
    detail: "The gateway hasn't responded yet. Check Waiting when you're back.",
    status: 0,
    code: 'no_answer',
    request_id: null,
  };
}

export function handoffName({ request, type }: AcceptedHandoff): string {
  return request?.result.name ?? `the ${type}`;
}
