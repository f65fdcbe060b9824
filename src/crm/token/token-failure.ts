/** Why no access token could be had, in words for the operator. Holds no secret, and never leaves the service. */
export class TokenFailure extends Error {
  override readonly name = 'TokenFailure';
  /** Short name of the cause, e.g. the `error` of the token endpoint. */
  readonly reason: string;
  /** What it means and what to fix. */
  readonly advice: string;
  /** Only somebody who changes a setting, the key or the org can help; trying again soon is useless. */
  readonly permanent: boolean;

  constructor(reason: string, advice: string, options: { permanent: boolean }) {
    super(`${reason}: ${advice}`);
    this.reason = reason;
    this.advice = advice;
    this.permanent = options.permanent;
  }
}
