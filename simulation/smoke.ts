import './virtual/preload.ts';
import { generateKeyPairSync } from 'node:crypto';
import { Agent, request } from 'undici';
import { startSalesforceSimulator } from '../simulators/salesforce/simulator.ts';
import { createConsumers } from '../src/identity/consumers/consumers.ts';
import { createAllMetrics } from '../src/app/metrics.ts';
import { fieldNamesOf } from '../src/records/field-names.ts';
import { listOf, resourcesOf } from '../src/records/mapping.ts';
import { Journal } from './journal.ts';
import { Replica } from './replica.ts';
import { CommonCache } from './stores/cache.ts';
import { CommonDatabase } from './stores/database.ts';
import { CommonJobs } from './stores/jobs.ts';
import { SharedSecrets } from './stores/secrets.ts';
import { Way } from './stores/reach.ts';
import { installWorld } from './virtual/globals.ts';
import { Network } from './virtual/network.ts';
import { Actor, World } from './virtual/world.ts';

const real = performance.now.bind(performance);
const keys = generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding: {type:'spki',format:'pem'}, privateKeyEncoding: {type:'pkcs8',format:'pem'} });
const database = await CommonDatabase.open();
console.log('db', real());
for (let i=0;i<4;i++) {
  const t0 = real();
  const world = new World(7);
  const network = new Network(world, () => ({ delayMs: world.random.between(0.3, 3) }));
  const journal = new Journal(world);
  const uninstall = installWorld(world, network);
  await database.begin(world);
  console.log('begin', real()-t0);
  const work = async () => {
    const secrets = new SharedSecrets();
    secrets.write('crm/dev/private-key', keys.privateKey, null);
    secrets.write('dining/dev/password', 'x', null);
    const org = await world.as(new Actor('org', world), () => startSalesforceSimulator({ clientId: 'c', username: 'u@x.y', publicKey: keys.publicKey, seed: { members: 100 } }));
    const admin = new Actor('admin', world);
    const made = await world.as(admin, async () => {
      const consumers = createConsumers({ secrets: secrets.seenFrom(new Way(world, admin)), log: { debug(){}, info(){}, warn(){}, error(){} }, metrics: createAllMetrics(), refreshSeconds: 30, fieldNames: fieldNamesOf(() => listOf(resourcesOf())) });
      return consumers.store.create({ name: 'console', permissions: [{ resource: 'quotes', actions: ['read','write','delete'] }, { resource: 'bookings', actions: ['read','write','delete'] }] });
    });
    const around = { world, journal, database, cache: new CommonCache(world), secrets, jobs: new CommonJobs(world), env: { SECRETS_MANAGER: 'vault', VAULT_ADDR: 'http://127.0.0.1:1', VAULT_TOKEN: 'x', CRM_LOGIN_URL: org.url, CRM_CLIENT_ID: 'c', CRM_USERNAME: 'u@x.y', DINING_BASE_URL: 'http://127.0.0.1:2', DINING_USERNAME: 'u' } };
    const replica = new Replica(1, around);
    const t1 = real();
    await replica.start();
    console.log('start', real()-t1);
    await world.as(new Actor('client', world), async () => {
      const agent = new Agent();
      const t2 = real();
      for (let n=0;n<50;n++) {
      const answer = await request(`${replica.url}/api/v1/handoff`, { dispatcher: agent, method: 'POST', headers: { 'content-type': 'application/json', 'x-api-key': made.apiKey, 'x-api-secret': made.apiSecret, 'idempotency-key': crypto.randomUUID() }, body: JSON.stringify({ type: 'quote', trip_id: crypto.randomUUID(), member_id: org.memberIds(1)[0], result: { name: 'a', source: 'b', details: {} } }) });
      journal.note(`${answer.statusCode} ${await answer.body.text()}`);
      }
      console.log('50 handoffs', real()-t2, world.count);
      const t3 = real(); const c = world.count;
      await world.pause(60_000);
      console.log('60 s idle', real()-t3, world.count - c);
    });
  };
  await world.run(work());
  uninstall();
  console.log(journal.lines.slice(0, 8).join('\n'), journal.fingerprint, real()-t0);
}
process.exit(0);
