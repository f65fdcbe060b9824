/** Why no access token could be had, in words for the operator. Holds no secret; only callers with credentials see it. */
export class TokenFailure extends Error {
  override readonly name = 'TokenFailure';
  /** Short name of the cause, e.g. the `error` of the token endpoint. */
  readonly reason: string;
  readonly advice: string;
  /** Only somebody who changes a setting, the key or the org can help; trying again soon is useless. */
  readonly permanent: boolean;
  /** Undefined where the org did not answer, or not as OAuth has it. */
  readonly refusal: SignInRefusal | undefined;

  constructor(reason: string, advice: string, options: { permanent: boolean; refusal?: SignInRefusal }) {
    const description = options.refusal?.error_description;
    super(`${reason}${description ? ` (${description})` : ''}: ${advice}`);
    this.reason = reason;
    this.advice = advice;
    this.permanent = options.permanent;
    this.refusal = options.refusal;
  }
}

/** A refused sign-in in the org's own words (RFC 6749 section 5.2). */
export interface SignInRefusal {
  error: string;
  /** In the language of the org, in one line of at most 300 characters; null where it gives none. */
  error_description: string | null;
}
