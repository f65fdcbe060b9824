/** The answer to a call. Awaited, it is the body; `withMeta` has what its headers say, too. */
export interface Reply<Answer> extends Promise<Answer> {
  withMeta(): Promise<WithMeta<Answer>>;
}

export interface WithMeta<Answer> {
  data: Answer;
  /** The state of the record, for `ifMatch` and `ifNoneMatch`. */
  etag: string | undefined;
  /** Id of the request, as it stands in the log of the service. */
  requestId: string | undefined;
  /** The service has done this before, under the same Idempotency-Key, and gave its answer again. */
  replayed: boolean;
}

export function replyOf<Answer>(answer: Promise<WithMeta<Answer>>): Reply<Answer> {
  const body = answer.then(({ data }) => data);
  return Object.assign(body, {
    withMeta: () => {
      // Its failure is that of the answer, which the caller has.
      body.catch(() => undefined);
      return answer;
    },
  });
}
