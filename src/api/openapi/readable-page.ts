import Fastify from 'fastify';

/** The readable form of the OpenAPI document, and the script that draws it. */
export interface ReadablePage {
  html(): Promise<string>;
  script(): Promise<string>;
}

/**
 * Scalar's API reference, with all of its assets served from here. It is loaded when a browser first asks for it:
 * it weighs 60 MB of memory that most installations never need.
 */
export function createReadablePage(documentPath: string): ReadablePage {
  let loading: Promise<{ html: string; script: string }> | undefined;
  const load = () => {
    loading ??= render(documentPath);
    return loading;
  };
  return {
    html: async () => (await load()).html,
    script: async () => (await load()).script,
  };
}

/** The plugin only serves through a server; one that never listens hands out its two files. */
async function render(documentPath: string): Promise<{ html: string; script: string }> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const server = Fastify();
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
  return { html: page.body.replace('js/scalar.js', `${documentPath}/scalar.js`), script: script.body };
}
