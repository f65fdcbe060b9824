import type { Core } from '../../../feature.ts';
import { startCall } from '../../../platform/base/call.ts';
import { Problem } from '../../../platform/base/problem.ts';
import { createHttp, type HttpRequest } from '../../../platform/http/http.ts';
import { type Breakage, breakages } from './faults.ts';

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
