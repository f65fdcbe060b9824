interface Event {
  at: number;
  /** Count of events added before: decides between events of one time. */
  order: number;
  run: () => void;
  isGone: boolean;
}

/** Events by their time (a binary heap). */
export class EventHeap {
  readonly #heap: Event[] = [];
  #order = 0;

  add(at: number, run: () => void): Event {
    const event = { at, order: this.#order++, run, isGone: false };
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return event;
  }

  remove(event: Event): void {
    event.isGone = true;
  }

  /** Takes the earliest one out. */
  next(): Event | undefined {
    for (;;) {
      const first = this.#take();
      if (first === undefined || !first.isGone) return first;
    }
  }

  #take(): Event | undefined {
    const [first] = this.#heap;
    const last = this.#heap.pop();
    if (last !== undefined && last !== first) {
      this.#heap[0] = last;
      this.#sink(0);
    }
    return first;
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#heap[a] as Event, this.#heap[b] as Event];
    return one.at === other.at ? one.order < other.order : one.at < other.at;
  }

  #swap(a: number, b: number): void {
    [this.#heap[a], this.#heap[b]] = [this.#heap[b] as Event, this.#heap[a] as Event];
  }

  #rise(start: number): void {
    for (let at = start; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(start: number): void {
    for (let at = start; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let least = at;
      if (left < this.#heap.length && this.#isBefore(left, least)) least = left;
      if (right < this.#heap.length && this.#isBefore(right, least)) least = right;
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }
}
