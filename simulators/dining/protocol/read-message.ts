import { ProtocolError } from './protocol-error.ts';
import type { Field, Shape } from './shapes.ts';

/** A message as read: snake_case names, int64 as numbers, fields that were not sent left out. */
export type Message = { [name: string]: Value };
type Value = string | number | boolean | Message | Value[];

/**
 * Reads a message strictly, as the Java skeleton does: a field that the shape does not have is an error. ProtoJSON
 * takes lowerCamelCase names too, and int64 as string or number.
 * @throws ProtocolError 400 naming the field.
 */
export function readMessage(shape: Shape, value: unknown, path = 'request'): Message {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError(400, `${path} must be an object`);
  }
  const fields = Object.entries(value).map(([sent, content]) => {
    const name = sent.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const field = shape[name];
    if (field === undefined) throw new ProtocolError(400, `${path}.${sent} is unknown`);
    return content === null ? [] : [[name, readField(field, content, `${path}.${name}`)] as const];
  });
  const message = Object.fromEntries(fields.flat());
  const missing = Object.keys(shape).find((name) => shape[name]?.required && message[name] === undefined);
  if (missing !== undefined) throw new ProtocolError(400, `${path}.${missing} is missing`);
  return message;
}

function readField(field: Field, value: unknown, path: string): Value {
  switch (field.type) {
    case 'string':
      if (typeof value === 'string') return value;
      break;
    case 'bool':
      if (typeof value === 'boolean') return value;
      break;
    case 'int32':
    case 'int64':
      return readInteger(value, path);
    case 'list':
      if (Array.isArray(value)) return value.map((each, i) => readMessage(field.of, each, `${path}[${i}]`));
      break;
    case 'message':
      return readMessage(field.of, value, path);
  }
  throw new ProtocolError(400, `${path} must be a ${field.type}`);
}

function readInteger(value: unknown, path: string): number {
  const isText = typeof value === 'string' && /^-?\d{1,15}$/.test(value);
  if (isText || (typeof value === 'number' && Number.isSafeInteger(value))) return Number(value);
  throw new ProtocolError(400, `${path} must be an integer`);
}
