import type { Span } from '../../base/span.ts';
import type { Ledger } from '../../idempotency/ledger.ts';

/** The ledger, its own work shown as spans: what comes before the request is carried out, and what comes after. */
export function withLedgerSpans(ledger: Ledger, parent: Span): Ledger {
  return {
    async run(request, execute, admit) {
      let working: Span | undefined = parent.child('internal', 'idempotency claim');
      try {
        return await ledger.run(
          request,
          async (claim) => {
            working?.end();
            working = undefined;
            const answer = await execute(claim);
            working = parent.child('internal', 'idempotency complete');
            return answer;
          },
          admit,
        );
      } finally {
        working?.end();
      }
    },
  };
}
