import scalar from '@scalar/fastify-api-reference';
import fastify from 'fastify';

// Run as a process of its own by readable-page.ts: has Scalar make its page and script, hands them over, and ends. The
// plugin only serves through a server; one that never listens gives out its two files.
const [documentPath = ''] = process.argv.slice(2);
const server = fastify();
const configuration = {
  url: documentPath,
  pageTitle: 'Handoff Gateway API',
  // Nothing on the page may come from another host.
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
};
await server.register(scalar, { routePrefix: '/page', configuration });
const page = await server.inject('/page/');
const script = await server.inject('/page/js/scalar.js');
await server.close();
const html = Buffer.from(page.body.replace('js/scalar.js', `${documentPath}/scalar.js`));
process.send?.({ html, script: script.rawPayload }, () => process.disconnect());
