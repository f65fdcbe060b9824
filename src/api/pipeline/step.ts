import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify';

export type Step = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

/**
 * Steps, in their order, as one hook of the framework. Only a step that has to wait makes a promise: one for each step
 * would cost a read more time than the steps themselves.
 */
export function inOrder(steps: readonly Step[]) {
  const run = (from: number, request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    for (let index = from; index < steps.length; index++) {
      const pending = steps[index]?.(request, reply);
      if (pending !== undefined) return pending.then(() => run(index + 1, request, reply));
    }
    return undefined;
  };
  // The framework goes on when it is called back, or when the promise is kept.
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => {
    const pending = run(0, request, reply);
    if (pending === undefined) done();
    return pending;
  };
}
