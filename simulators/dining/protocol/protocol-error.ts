/** An answer without success: the call was not understood, or not allowed. Business failures are answers with 200. */
export class ProtocolError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
