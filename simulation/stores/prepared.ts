import { type PGlite, protocol, types } from '@electric-sql/pglite';

import { embedded } from '../virtual/preload.ts';

interface Prepared {
  name: string;
  parameters: number[];
  fields: { name: string; dataTypeID: number }[];
}

interface Message {
  name: string;
  text?: string;
  fields?: unknown[];
  dataTypeIDs?: number[];
}

export interface QueryResult {
  rows: Record<string, unknown>[];
  /** Rows that a statement has changed. */
  affected: number;
}

/**
 * Statements of the embedded database, each parsed once and then sent in one message: `query` of PGlite parses and describes
 * each anew, which takes twice as long.
 */
export class PreparedStatements {
  readonly #pglite: PGlite;
  readonly #known = new Map<string, Prepared>();

  constructor(pglite: PGlite) {
    this.#pglite = pglite;
  }

  /** Throws what the server says. */
  execute(text: string, values: readonly unknown[]): QueryResult {
    const { serialize } = protocol;
    const prepared = this.#known.get(text) ?? this.#prepare(text);
    const { name, parameters, fields } = prepared;
    const bound = values.map((value, at) => this.#textOf(value, parameters[at] as number));
    const messages = this.#send([
      serialize.bind({ statement: name, values: bound }),
      serialize.execute({}),
      serialize.sync(),
    ]);
    const { parsers } = this.#pglite;
    const rows: Record<string, unknown>[] = [];
    let affected = 0;
    for (const message of messages) {
      if (message.name === 'dataRow') {
        const row = message.fields as (string | null)[];
        const read = fields.map((field, at) => [
          field.name,
          types.parseType(row[at] ?? null, field.dataTypeID, parsers) as unknown,
        ]);
        rows.push(Object.fromEntries(read) as Record<string, unknown>);
      } else if (message.name === 'commandComplete') {
        affected = Number(/^(?:INSERT|UPDATE|DELETE|MERGE)\b.* (\d+)$/.exec(message.text ?? '')?.[1] ?? 0);
      }
    }
    return { rows, affected };
  }

  #prepare(text: string): Prepared {
    const { serialize } = protocol;
    const name = `s${this.#known.size}`;
    const messages = this.#send([
      serialize.parse({ name, text }),
      serialize.describe({ type: 'S', name }),
      serialize.sync(),
    ]);
    const prepared: Prepared = { name, parameters: [], fields: [] };
    for (const message of messages) {
      if (message.name === 'parameterDescription') prepared.parameters = message.dataTypeIDs ?? [];
      if (message.name === 'rowDescription') prepared.fields = message.fields as Prepared['fields'];
    }
    this.#known.set(text, prepared);
    return prepared;
  }

  #textOf(value: unknown, type: number): string | null {
    if (value === null || value === undefined) return null;
    const serializer = this.#pglite.serializers[type];
    return serializer ? serializer(value) : (value as string);
  }

  #send(parts: Uint8Array[]): Message[] {
    const found: Message[] = [];
    let failure: Error | undefined;
    embedded.isAtWork = true;
    const answer = this.#pglite.execProtocolRawSync(Buffer.concat(parts));
    embedded.isAtWork = false;
    new protocol.Parser().parse(answer, (message) => {
      if (message instanceof Error) failure ??= message;
      found.push(message);
    });
    if (failure !== undefined) throw failure;
    return found;
  }
}
