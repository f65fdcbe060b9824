import { createHash } from 'node:crypto';
import type { World } from './virtual/world.ts';

/** Lines with their time. */
export class Journal {
  readonly lines: string[] = [];
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  note(what: string): void {
    const { elapsed } = this.#world;
    this.lines.push(`${(elapsed / 1000).toFixed(3).padStart(9)} ${what}`);
  }

  /** Equal for two runs where the same happened. */
  get fingerprint(): string {
    return createHash('sha256').update(this.lines.join('\n')).digest('hex');
  }
}
