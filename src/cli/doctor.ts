import { type DoctorCheck, type DoctorContext, NothingToCheck } from '../feature.ts';
import type { LoadSettings } from '../platform/command-line/command.ts';
import { checks } from './doctor-checks.ts';

export interface Finding {
  name: string;
  state: 'ok' | 'failed' | 'skipped';
  detail: string;
}

export async function runDoctor(load: LoadSettings, asJson: true | undefined): Promise<void> {
  const findings: Finding[] = [];
  await using opened = new AsyncDisposableStack();
  const context: DoctorContext = { load, opened };
  for (const check of checks) {
    const finding = await examine(check, context, findings);
    findings.push(finding);
    if (!asJson) process.stdout.write(`${show(finding)}\n`);
  }
  const ok = findings.every(({ state }) => state !== 'failed');
  if (asJson) process.stdout.write(`${JSON.stringify({ ok, checks: findings })}\n`);
  if (!ok) process.exitCode = 1;
}

async function examine(
  check: DoctorCheck,
  context: DoctorContext,
  earlier: readonly Finding[],
): Promise<Finding> {
  const { name } = check;
  const missing = earlier.find((finding) => check.needs.includes(finding.name) && finding.state !== 'ok');
  if (missing) return { name, state: 'skipped', detail: `needs ${missing.name} to succeed` };
  try {
    return { name, state: 'ok', detail: await check.run(context) };
  } catch (error) {
    const state = error instanceof NothingToCheck ? 'skipped' : 'failed';
    return { name, state, detail: withoutPasswords(messageOf(error), context) };
  }
}

/** Several addresses of one host fail as one error without a message of its own. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('\n');
  const missing = missingPackageOf(error);
  if (missing !== undefined)
    return `The package ${missing} isn't installed. Stop every gateway that runs from this folder, then run npm ci here.`;
  return error instanceof Error ? error.message : String(error);
}

function missingPackageOf(error: unknown): string | undefined {
  const { code, message } = error as { code?: string; message?: string };
  return code === 'ERR_MODULE_NOT_FOUND' ? /package '([^']+)'/.exec(message ?? '')?.[1] : undefined;
}

/** The message of a driver may repeat a connection URL: its password is taken out. */
function withoutPasswords(text: string, { settings }: DoctorContext): string {
  const passwords = [settings?.databaseUrl, settings?.redisUrl].flatMap((url) => {
    const password = URL.parse(url ?? '')?.password;
    return password ? [url as string, password, decoded(password)] : [];
  });
  return passwords.reduce((shown, password) => shown.replaceAll(password, '(hidden)'), text);
}

/** As it is where a `%` in it begins no escape: drivers take that too. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show({ name, state, detail }: Finding): string {
  const label = `${state.padEnd(7)}  ${name.padEnd(22)}  `;
  return `${label}${detail.replaceAll('\n', `\n${' '.repeat(label.length)}`)}`;
}
