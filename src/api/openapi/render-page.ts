import scalar from '@scalar/fastify-api-reference';
import fastify from 'fastify';

// Run as a process of its own by readable-page.ts: hands over Scalar's script for browsers, and ends. The plugin only serves it
// through a server; one that never listens gives it out.
const server = fastify();
await server.register(scalar, { routePrefix: '/page', configuration: { content: {} } });
const script = await server.inject('/page/js/scalar.js');
await server.close();
process.send?.(script.rawPayload, () => process.disconnect());
