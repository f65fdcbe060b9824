import { documentedRoutes } from '../../src/app/routes.ts';
import { startGateway } from '../support/gateway.ts';

/*
 * Starts the service of the tree that this file is in, and prints the state of its health, with the operations that it has, and
 * those of them that answer with a failure to a caller without credentials.
 */

const gateway = await startGateway();
const answers = await Promise.all(
  documentedRoutes()
    .filter(({ method }) => method === 'GET')
    .map(async ({ operationId, path }) => {
      const { status } = await gateway.request(path.replaceAll(/:\w+/g, crypto.randomUUID()), { as: null });
      return { operationId, status };
    }),
);
const health = await (await gateway.request('/v1/healthz')).json();
await gateway.stop();
const operations = documentedRoutes().map(({ operationId }) => operationId);
const failed = answers.filter(({ status }) => status >= 500).map(({ operationId }) => operationId);
process.stdout.write(JSON.stringify({ health, operations, failed }));
