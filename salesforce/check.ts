/*
 * Checks the Salesforce package without an org: node salesforce/check.ts [--write-manifest] [directory]. This file has neither types
 * nor imports, and its folder is one of CommonJS, so that an older Node can read it too, which then starts the right one.
 */
void import('../scripts/run-with-node-24.js').then(({ runWithNode24 }) =>
  runWithNode24('salesforce/check/main.ts', () => undefined),
);
