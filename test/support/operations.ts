import { randomUUID } from 'node:crypto';

export interface Operation {
  method: string;
  /** With a made-up id where it has a parameter. */
  path: string;
  /** Without a body there is nothing to do. */
  needsBody: boolean;
  isPublic: boolean;
}

interface Document {
  paths: Record<string, Record<string, { requestBody?: { required: boolean }; security?: object[] }>>;
}

/** Every operation of the service, as its documentation lists them. */
export async function listOperations(url: string): Promise<Operation[]> {
  const { paths } = (await (await fetch(`${url}/v1/docs`)).json()) as Document;
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { requestBody, security }]) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{\w+\}/g, randomUUID()),
      needsBody: requestBody?.required === true,
      // Where credentials may be sent, they are looked at.
      isPublic: security !== undefined && !security.some((way) => 'apiKey' in way),
    })),
  );
}
