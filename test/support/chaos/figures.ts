/** What a run of chaos counts. */
export class Figures {
  /** Keys that ended in success. */
  writes = 0;
  kills = 0;
  /** Requests that carried a key, while replicas were killed. */
  sent = 0;
  /** Of them, those that were not the first with their key. */
  repeats = 0;
  /** No answer, or half of one. */
  broken = 0;
  /** Keys whose owner was killed, and that a repeat then carried to the end. */
  takenOver = 0;
  /** Answers that came from the ledger, while replicas were killed. */
  replays = 0;
  reads = 0;
  /** Answers by status, reads left out. */
  readonly answers = new Map<number, number>();
  /** Faults of the CRM by kind. */
  readonly faults = new Map<string, number>();
  readonly violations: string[] = [];
  /** What was compared at the end, in words. */
  readonly checks: string[] = [];
  readonly #startedAt = performance.now();

  violation(what: string): void {
    this.violations.push(what);
  }

  answered(status: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
  }

  /** As lines for people. */
  lines(): string[] {
    const list = (counts: Map<unknown, number>) =>
      [...counts].map(([name, count]) => `${String(name)}: ${count}`).join(', ');
    const answers = new Map([...this.answers].sort(([a], [b]) => a - b));
    return [
      `writes (keys) ${this.writes}, kills ${this.kills}, ${((performance.now() - this.#startedAt) / 1000).toFixed(0)} s`,
      `requests ${this.sent}, of them repeats ${this.repeats}; no answer ${this.broken}; reads ${this.reads}`,
      `answers ${list(answers)}; of them replays ${this.replays}`,
      `409s ${this.answers.get(409) ?? 0}, 503s ${this.answers.get(503) ?? 0}, keys carried out by a repeat after their owner died ${this.takenOver}`,
      `calls to the CRM that failed ${list(this.faults)}`,
      ...this.checks,
      `violations ${this.violations.length}`,
      ...this.violations.slice(0, 50),
    ];
  }
}
