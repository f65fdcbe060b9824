import type { Answer, Purpose, Request } from './facts.ts';

/** One write under its key, with all that was answered. */
export interface Write {
  readonly request: Request;
  readonly purpose: Purpose;
  /** Milliseconds of virtual time. */
  readonly begunAt: number;
  /** The answer that is its last word. */
  final: Answer | undefined;
  /** A try got no answer, or one that leaves the outcome open. */
  isUncertain: boolean;
  /** All of it or nothing. */
  isAtomic: boolean;
  /** Its consumer may not do it any more: no last word, and nothing is done. */
  refusal: Answer | undefined;
  readonly isOver: boolean;
}

/** Statuses that are stored under a key (contract, section 5): from then on each repeat gets the same. */
function isStored({ status, text }: Answer): boolean {
  if (status === 409) return codeOf(text) === 'conflict';
  return (status >= 200 && status < 300) || status === 404 || status === 412 || status === 422;
}

/** Refuses for good. A right that is gone comes back: the client tries again. */
function isRefusal({ status, text }: Answer): boolean {
  return status === 400 || (status === 403 && codeOf(text) !== 'permission_denied');
}

/** The code of a problem. */
export function codeOf(text: string): string {
  return /"code":"(\w+)"/.exec(text)?.[1] ?? '';
}

/** Each key has one answer. */
export class Answers {
  readonly writes: Write[] = [];
  readonly #violate: (what: string) => void;
  readonly #now: () => number;

  constructor(violate: (what: string) => void, now: () => number) {
    this.#violate = violate;
    this.#now = now;
  }

  begin(request: Request, purpose: Purpose): Write {
    const write: Write = {
      request,
      purpose,
      begunAt: this.#now(),
      final: undefined,
      isUncertain: false,
      isAtomic: false,
      refusal: undefined,
      get isOver() {
        return this.final !== undefined || this.refusal !== undefined;
      },
    };
    this.writes.push(write);
    return write;
  }

  /** Undefined: the client got none. */
  heard(write: Write, answer: Answer | undefined): void {
    if (answer === undefined || answer.status >= 500) write.isUncertain = true;
    if (answer === undefined) return;
    if (isRefusal(answer)) this.#refused(write, answer);
    if (answer.status === 500) this.#violate(`${titleOf(write)} got 500: ${answer.text}`);
    if (!isStored(answer)) return;
    write.final ??= answer;
    const { status, text } = write.final;
    if (status !== answer.status || text !== answer.text)
      this.#violate(
        `${titleOf(write)} has two answers: ${status} ${text} and ${answer.status} ${answer.text}`,
      );
  }

  /** By what it may do now. What an earlier try may have done is looked for first. */
  #refused(write: Write, answer: Answer): void {
    // All or none of what needs approval by now: refused where nothing of it is there.
    const isNotAtomic =
      codeOf(answer.text) === 'invalid_request' && write.request.body?.includes('"atomic":true');
    // Whether a refused update was made all the same is seen in the record.
    const isUpdate =
      codeOf(answer.text) === 'approval_required' &&
      write.purpose.kind === 'trip' &&
      write.purpose.asked.every((asked) => asked.isUpdate);
    if (write.isUncertain && !isNotAtomic && !isUpdate)
      this.#violate(
        `${titleOf(write)} got ${answer.status} ${codeOf(answer.text)}, though it may have been done`,
      );
    write.refusal ??= answer;
  }

  /** Each write has come to its end. */
  check(): void {
    for (const write of this.writes)
      if (!write.isOver) this.#violate(`${titleOf(write)} never got an answer that is final`);
  }
}

/** A write in words. */
export function titleOf({ request }: Pick<Write, 'request'>): string {
  return `${request.method} ${request.path} of ${request.as} under ${request.key ?? 'no key'}`;
}
