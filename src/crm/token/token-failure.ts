export class TokenFailure extends Error {
  override readonly name = 'TokenFailure';
  readonly reason: string;
  readonly advice: string;
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
