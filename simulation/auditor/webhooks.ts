import type { Answer, Ending } from './facts.ts';

/** A report of the org about a member. */
interface Webhook {
  readonly id: string;
  readonly member: string;
  /** It was answered 202. */
  isHeard: boolean;
}

/** Webhooks of the org: each is new once, all are applied, and members are shown as the org has them. */
export class Webhooks {
  readonly known: Webhook[] = [];
  readonly #violate: (what: string) => void;

  constructor(violate: (what: string) => void) {
    this.#violate = violate;
  }

  begin(id: string, member: string): Webhook {
    const webhook = { id, member, isHeard: false };
    this.known.push(webhook);
    return webhook;
  }

  heard(webhook: Webhook, answer: Answer | undefined): void {
    if (answer?.status !== 202) return;
    const { status } = JSON.parse(answer.text) as { status: string };
    if (webhook.isHeard && status !== 'duplicate')
      this.#violate(`the webhook ${webhook.id} is ${status} once more`);
    webhook.isHeard = true;
  }

  /** Members that the org has reported. */
  get members(): string[] {
    return [...new Set(this.known.map(({ member }) => member))];
  }

  check({ members }: Ending): void {
    for (const { id, isHeard } of this.known)
      if (!isHeard) this.#violate(`the webhook ${id} was never accepted`);
    for (const { id, shown, name } of members)
      if (shown !== name) this.#violate(`the member ${id} is shown as ${shown}, and is ${name} in the org`);
  }
}
