import { startsProcesses } from './test-groups.ts';

/*
 * Which test files `npm test` runs, and which it leaves to `npm run test:nightly`. It runs what starts nothing, the main ways
 * through each capability, and all that a change can break: the tests of what has changed, and of what stands on that. The
 * two together run every file, in whole.
 */

/** Run in any case: a way through each capability, and the guards of the whole. The unit tests and new files need no entry. */
const always: readonly RegExp[] = [
  /^test\/(simulation|support|architecture)\//,
  /^test\/api\/(body-bounds|doors|errors|gathering|health|include-member|odd-requests|openapi-document|rate-limit|secret-writes|security)\./,
  /^test\/api\/idempotency\/(ledger|stored-answers)\./,
  /^test\/(cli\/first-minutes|client\/client|docs\/readme|faults\/idempotency-database|gates\/(runner|test-plan))\./,
  /^test\/crm\/(batching-properties|batching-reads|faults|records|refusals|resilience|token)\./,
  /^test\/identity\/(audit\/uses|rate-limits\/allowances)\./,
  /^test\/platform\/(cache\/redis|http\/outbound|observability\/(log|metrics)|store\/(database-locks|migrate))\./,
  /^test\/features\/(console\/(hand-off|api\/console)|crm-webhooks\/api\/webhooks|events\/(event-log|feed))\./,
  /^test\/features\/(history\/history|mcp\/(intents|mcp|tools)|oauth\/oauth|people\/(attacks|people)|read-copy\/copy)\./,
  /^test\/features\/(discovery|partner-webhooks\/api|reservations\/api|usage)\//,
  /^test\/features\/consumer-admin\/api\/(ceiling|consumers|own-consumer|rotation-secrets)\./,
  /^test\/features\/handoff\/api\/(accepted-handoffs|approvals|handoff|items|owners|repeat-window|seen-content)\./,
  /^test\/features\/(org-schema\/api\/(hidden-fields|record-types)|test-mode\/test-keys)\./,
  /^test\/features\/records\/api\/(deleted-meanwhile|if-match-properties|isolation|member-cache|members|records|search|updated-since)\./,
  /^test\/features\/trips\/api\/(check|hand-off-trip|trip|who-sees-what)\./,
];

/** Tests that `npm test` runs where one of their inputs has changed; the nightly run always does. */
const whenChanged: readonly { tests: RegExp; inputs: RegExp }[] = [
  {
    tests: /^test\/gates\/gates\./,
    inputs:
      /^(package(-lock)?\.json|biome\.json|knip\.json|tsconfig\.json|\.oxlintrc\.json|salesforce\/check|scripts\/check-|test\/gates\/)/,
  },
  {
    tests: /^test\/gates\/(commands|run-child)\./,
    inputs: /^(package(-lock)?\.json|bin\/|scripts\/|src\/(main\.ts|cli\/)|test\/gates\/)/,
  },
  { tests: /^test\/gates\/release\./, inputs: /^(package\.json|scripts\/release|client\/|test\/gates\/)/ },
  { tests: /^test\/bench\/bench\./, inputs: /^(test\/)?bench\// },
  {
    tests: /^test\/client\/(package|quickstart|browser|postman)\./,
    inputs: /^((test\/)?client\/|scripts\/|docs\/)/,
  },
  // Samples as a reader saves and runs them, with compilers and `npm install`.
  {
    tests: /^test\/(docs\/partners|api\/code-samples)\./,
    inputs: /^((test\/)?(client|docs)\/|scripts\/pack-client|src\/(api|app|features)\/)/,
  },
  {
    tests: /^test\/deploy\//,
    inputs: /^((test\/)?deploy\/|Dockerfile|scripts\/build-console|compose\.yaml|src\/.*settings)/,
  },
  {
    tests: /^test\/salesforce-package\//,
    inputs: /^(salesforce\/|test\/salesforce-package\/|src\/cli\/org\/)/,
  },
  { tests: /^test\/docs\/backup\./, inputs: /^(docs\/backup|test\/docs\/|src\/platform\/(store|secrets)\/)/ },
  { tests: /^test\/docs\/webhooks\./, inputs: /^(docs\/|test\/docs\/|src\/features\/partner-webhooks\/)/ },
  // Each page in a browser.
  {
    tests: /^test\/features\/console\//,
    inputs: /^(console\/|(src|test)\/features\/console\/|scripts\/build-console|test\/support\/browser)/,
  },
  { tests: /^test\/simulators\//, inputs: /^(test\/)?simulators\// },
  { tests: /^test\/platform\/secrets\/(aws|vault.*)\./, inputs: /^(src|test)\/platform\/secrets\// },
  {
    tests: /^test\/platform\/observability\/tracing\./,
    inputs: /^(package\.json|src\/main\.ts|(src|test)\/platform\/observability\/)/,
  },
  { tests: /^test\/platform\/store\/rolling-back\./, inputs: /^src\/platform\/store\/migrations/ },
  {
    tests: /^test\/(features\/org-schema\/api\/(rehearsal|invented-org)|cli\/(doctor|org))\./,
    inputs: /^(src\/(cli|records|crm|features\/org-schema)|test\/(cli|features\/org-schema)|salesforce)\//,
  },
  // Real processes that are killed, suspended or cut off at one moment each: the simulation tries many.
  { tests: /^test\/faults\/(degraded|poisoned)-redis\./, inputs: /^src\/(platform\/cache|crm\/token)\// },
  {
    tests: /^test\/faults\/(degraded-others|lost-secrets|suspended-credentials)\./,
    inputs: /^src\/(platform\/secrets|identity)\//,
  },
  { tests: /^test\/faults\/(call-budget|poisoned-calls)\./, inputs: /^src\/crm\/(budget|batching)\// },
  {
    tests: /^test\/faults\/(rolling-restart|degraded-postgres|idempotency-kill-embedded)\./,
    inputs: /^src\/platform\/store\//,
  },
  {
    tests:
      /^test\/(faults\/(idempotency-(kill|replicas)|suspended(-leases)?)|features\/records\/faults\/(if-match|deleted-records))\./,
    inputs: /^src\/(api\/idempotency|features\/handoff)\//,
  },
  { tests: /^test\/faults\/(workers|start)\./, inputs: /^src\/(main\.ts|cli\/workers\/|app\/)/ },
  {
    tests: /^test\/(faults\/unread-answers|features\/records\/faults\/(large|unread)-lists)\./,
    inputs: /^src\/api\/(connections|pipeline|server)/,
  },
  {
    tests:
      /^test\/features\/([^/]+)\/faults\/(copy|unnoted-writes|replicas|deliveries|webhooks|approvals|reservations-kill|unreachable-org)\./,
    inputs: /^(src|test)\/features\/$1\//,
  },
  {
    tests: /^test\/features\/(reservations|read-copy)\/interleaving\./,
    inputs: /^(src|test)\/features\/$1\//,
  },
  // All others, where something has changed that they stand on.
  {
    tests: /^test\/features\/([^/]+)\//,
    inputs: /^(src\/(?!features\/)|simulators\/|test\/support\/|(src|test)\/features\/$1\/)/,
  },
  {
    tests: /^test\/(crm|identity|platform)\//,
    inputs: /^(src\/($1|records|platform)|simulators|test\/support)\//,
  },
  { tests: /^test\/docs\//, inputs: /^(docs|src|simulators|test\/support|README)/ },
  { tests: /^test\/(api|cli|client|faults)\//, inputs: /^(client|src|simulators|test\/support)\// },
];

/** What takes minutes: kills and faults at random under load, in real processes; and what needs the registry. */
const nightly: readonly RegExp[] = [
  // Packages from the registry.
  /^test\/features\/mcp\/(conformance|previous-client)\./,
  /^test\/(simulators\/salesforce\/jsforce|salesforce-package\/fetched-tools|gates\/fetched-secretlint)\./,
  /^test\/faults\/chaos\./,
  // Each fix that is taken back, until a seed finds it.
  /^test\/simulation\/nightly\./,
  /^test\/features\/[^/]+\/faults\/([a-z]+-chaos|accepted-handoffs|intents|copy-model)\./,
];

/** Run both times: `npm test` tries a part of what they have. */
const inPart: readonly RegExp[] = [
  /^test\/api\/odd-parameters\./,
  /^test\/architecture\/features\./,
  /^test\/features\/console\//,
];

/** Whether the test file belongs to the run; `changed` are the paths that `npm test` looks at, from the root. */
export function isInRun(
  file: string,
  { isNightly, changed }: { isNightly: boolean; changed: Iterable<string> },
): boolean {
  const isWhole = !isLeft(file, changed);
  if (!isNightly) return isWhole;
  // What has not changed now did so in a change before.
  return isLeft(file, []) || inPart.some((pattern) => pattern.test(file));
}

/** Find what they find by chance: it is no less a fault where it does not come again. */
const random = /chaos|\/(accepted-handoffs|intents|copy-model)\./;

/** Whether a file may fail for what else the machine does: it starts processes, or a browser. */
export function mayFailByChance(file: string): boolean {
  return !random.test(file) && startsProcesses(file);
}

/** Those of the plan that name no test file any more. */
export function uselessPatterns(files: readonly string[]): RegExp[] {
  const patterns = [...always, ...whenChanged.map(({ tests }) => tests), ...nightly, ...inPart, random];
  return patterns.filter((pattern) => !files.some((file) => pattern.test(file)));
}

function isLeft(file: string, changed: Iterable<string>): boolean {
  if (nightly.some((pattern) => pattern.test(file))) return true;
  if (always.some((pattern) => pattern.test(file))) return false;
  for (const { tests, inputs } of whenChanged) {
    const match = tests.exec(file);
    if (match === null) continue;
    const pattern = new RegExp(inputs.source.replace('$1', match[1] ?? ''));
    return !Array.from(changed).some((path) => path === file || pattern.test(path));
  }
  return false;
}
