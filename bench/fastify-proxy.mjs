/** @fastify/http-proxy with its defaults, in front of the upstream that is given: what the benchmark compares with. */
import proxy from '@fastify/http-proxy';
import Fastify from 'fastify';

const [upstream = ''] = process.argv.slice(2);
const app = Fastify();
await app.register(proxy, { upstream });
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
