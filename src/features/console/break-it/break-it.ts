import type { Core } from '../../../feature.ts';
import { startCall } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { createHttp, type HttpRequest } from '../../../platform/http/http.ts';

const seconds = 300;
const timeoutMs = 5000;
const noticeMs = 2000;

interface ArmedFault {
  id: string;
  name?: string;
  endsAt?: string;
}

export interface ShownBreakage extends Pick<Breakage, 'name' | 'title' | 'watch'> {
  /** RFC 3339; null while it is not broken. */
  ends_at: string | null;
}

type Parts = Pick<Core, 'simulated' | 'crm' | 'resources' | 'settings'>;

/** Keeps no state: the simulated systems know which faults are armed. */
export class BreakIt {
  readonly #parts: Parts;
  readonly #http = createHttp(timeoutMs);

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async list(): Promise<ShownBreakage[]> {
    const armed = await this.#armed();
    return this.#possible().map(({ name, title, watch }) => {
      const ends_at = armed.find((fault) => fault.name === name)?.endsAt ?? null;
      return { name, title: this.#named(title), watch: this.#named(watch), ends_at };
    });
  }

  /** Breaks it for five minutes from now. Throws `not_found`. */
  async break(name: string): Promise<void> {
    const breakage = this.#possible().find((one) => one.name === name);
    if (breakage === undefined) throw unknown(this.#possible());
    const { system, fault, endsSessions } = breakage;
    await this.fix(name);
    await this.#ask(system, 'POST', 'faults', { ...fault, name, seconds });
    if (endsSessions) await this.#ask(system, 'POST', 'tokens/revoke');
    if (system === 'crm') await this.#notice();
  }

  /** A call that meets the fault, so that Health knows of it before somebody else's does. */
  async #notice(): Promise<void> {
    const { crm, resources } = this.#parts;
    const call = startCall('break-it', undefined, noticeMs);
    const query = { filters: {}, limit: 1, maxBytes: 1, represent: () => '' };
    await crm.records.list(resources.member, query, call).catch(() => undefined);
  }

  async fix(name?: string): Promise<void> {
    const wanted = (await this.#armed()).filter((fault) => name === undefined || fault.name === name);
    await Promise.all(wanted.map(({ system, id }) => this.#ask(system, 'DELETE', `faults/${id}`)));
  }

  #named(text: string): string {
    return text.replaceAll('Salesforce', this.#parts.settings.crm.name);
  }

  #possible(): readonly Breakage[] {
    return breakages.filter(({ system }) => this.#parts.simulated[system] !== undefined);
  }

  async #armed(): Promise<(ArmedFault & { system: Breakage['system'] })[]> {
    const systems = new Set(this.#possible().map(({ system }) => system));
    const lists = [...systems].map(async (system) => {
      const faults = JSON.parse(await this.#ask(system, 'GET', 'faults')) as ArmedFault[];
      return faults.map((fault) => ({ ...fault, system }));
    });
    return (await Promise.all(lists)).flat().filter(({ name }) => breakages.some((one) => one.name === name));
  }

  async #ask(
    system: Breakage['system'],
    method: HttpRequest['method'],
    path: string,
    body?: object,
  ): Promise<string> {
    const { status, body: answer } = await this.#http.exchange({
      url: `${this.#parts.simulated[system]?.url}/simulator/${path}`,
      method,
      headers: { 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
      timeoutMs,
    });
    // Gone already: the fault has ended meanwhile.
    if (status === 404 && method === 'DELETE') return '';
    if (status !== 200) throw new Error(`the simulator answered ${status} to ${method} ${path}: ${answer}`);
    return answer;
  }
}

function unknown(possible: readonly Breakage[]): Problem {
  const names = possible.map(({ name }) => name).join(', ');
  return new Problem('not_found', `Nothing with this name can be broken. Choose one of ${names}.`);
}

interface Breakage {
  name: string;
  title: string;
  watch: string;
  system: 'crm' | 'dining';
  /** A fault of its simulator: `simulators/salesforce/README.md` and `simulators/dining/README.md`. */
  fault: object;
  endsSessions?: true;
}

const breakages: readonly Breakage[] = [
  {
    name: 'salesforce_away',
    title: 'Salesforce is down',
    watch:
      'Hand off a sample. It’s saved and appears under Waiting, and a strip on every page counts down to the next try. Click Fix, ' +
      'and the record is created on its own.',
    system: 'crm',
    fault: { effect: { kind: 'down' } },
  },
  {
    name: 'salesforce_slow',
    title: 'Salesforce is slow',
    watch:
      'Every call takes 6 seconds longer. A hand-off is still answered within 5 seconds, and saved for later. Health shows the latency.',
    system: 'crm',
    fault: { effect: { kind: 'latency', ms: 6000 } },
  },
  {
    name: 'answers_lost',
    title: 'Responses get lost',
    watch:
      'Salesforce does the work, but half of its responses never arrive. Hand off a sample and search for it under Records. It’s ' +
      'there exactly once.',
    system: 'crm',
    fault: { effect: { kind: 'loseAnswer' }, probability: 0.5 },
  },
  {
    name: 'sign_in_refused',
    title: 'Salesforce refuses the sign-in',
    watch:
      'The gateway’s session ends, and Salesforce won’t give it a new one. Health shows why, in Salesforce’s own words. Hand-offs are saved.',
    system: 'crm',
    fault: {
      effect: {
        kind: 'tokenError',
        error: 'rate_limit_exceeded',
        description: 'login rate exceeded',
      },
    },
    endsSessions: true,
  },
  {
    name: 'quota_used_up',
    title: 'The API quota is used up',
    watch:
      'Salesforce refuses every call for the rest of the day. Hand off a sample. It’s saved and waits for the quota to reset.',
    system: 'crm',
    fault: { effect: { kind: 'dailyLimit' } },
  },
  {
    name: 'trigger_throws',
    title: 'A trigger fails',
    watch:
      'An Apex trigger fails on every write. Hand off a sample. It’s refused with the trigger’s own error, since retrying wouldn’t help.',
    system: 'crm',
    fault: {
      effect: {
        kind: 'recordError',
        errorCode: 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY',
        message:
          'TripTrigger: execution of BeforeInsert\n\ncaused by: System.NullPointerException: Attempt to de-reference a null ' +
          'object\n\nTrigger.TripTrigger: line 12, column 1',
      },
    },
  },
  {
    name: 'dining_away',
    title: 'The dining partner is down',
    watch:
      'Tables can’t be reserved, and Health shows which part is down. Quotes and bookings work as usual.',
    system: 'dining',
    fault: { effect: { kind: 'error', status: 503 } },
  },
];
