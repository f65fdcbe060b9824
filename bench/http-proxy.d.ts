/** Fetched by npm where the benchmark compares with it, so that no installation needs it. */
declare module '@fastify/http-proxy' {
  import type { FastifyPluginCallback } from 'fastify';

  const proxy: FastifyPluginCallback<{ upstream: string }>;
  export default proxy;
}
