import { randomUUID } from 'node:crypto';
import type { Model } from './model.ts';

const mostQuotes = 60;

/** Members, and the first quotes. */
export async function fill(model: Model): Promise<void> {
  for (let n = 0; n < 4; n++) {
    const id = randomUUID();
    await model.cluster.org.insert('Contact', [{ External_Id__c: id, LastName: `member ${n}` }]);
    model.members.push(id);
  }
  for (let n = 0; n < 10; n++) await insert(model);
}

/** One write, through the API or by somebody in the org. */
export function write(model: Model): Promise<void> {
  const isRoom = model.quotes.length < mostQuotes;
  const id = model.pick(model.quotes);
  const bin = (kind: 'delete' | 'undelete') => () => {
    model.trace(`the org: ${kind} of ${id}`);
    return unlessTaken(() => model.cluster.org.bin('Quote__c', id, kind));
  };
  const kinds: [number, () => Promise<void>][] = [
    [isRoom ? 8 : 0, () => create(model)],
    [isRoom ? 8 : 0, () => handOff(model)],
    [isRoom ? 5 : 0, () => insert(model)],
    [40, () => change(model, id)],
    [5, () => remove(model, id)],
    [5, bin('delete')],
    [13, bin('undelete')],
    [12, () => edit(model, id)],
    [4, () => move(model, id)],
    [isRoom ? 2 : 0, () => erase(model, id)],
    [5, () => changeMember(model)],
  ];
  return model.pickWeighted(kinds)();
}

async function insert(model: Model): Promise<void> {
  const id = randomUUID();
  const { name, details } = model.nextValues();
  const values = { Name__c: name, Details__c: details, Source__c: 's', Trip_Id__c: model.pick(model.trips) };
  await model.cluster.org.insert('Quote__c', [{ External_Id__c: id, ...values }]);
  model.quotes.push(id);
  model.trace(`the org: ${id} is ${name}`);
}

async function edit(model: Model, id: string): Promise<void> {
  const { name, details } = model.nextValues();
  const values = { Name__c: name, Details__c: details, Trip_Id__c: model.pick(model.trips) };
  await model.cluster.org.edit('Quote__c', { External_Id__c: id }, values);
  model.trace(`the org: ${id} is ${name}`);
}

/** An External ID goes from one record to another; the first one gets a new one, and the other's is gone. */
async function move(model: Model, id: string): Promise<void> {
  const { org } = model.cluster;
  const index = Math.floor(model.random() * model.quotes.length);
  const [other, next] = [model.quotes[index] as string, randomUUID()];
  if (other === id) return;
  model.trace(`the org: ${id} goes from its record, ${next} now, to that of ${other}`);
  await org.edit('Quote__c', { External_Id__c: id }, { External_Id__c: next });
  await unlessTaken(() => org.edit('Quote__c', { External_Id__c: other }, { External_Id__c: id }));
  model.quotes.push(next);
}

/** Past the recycle bin. */
async function erase(model: Model, id: string): Promise<void> {
  model.trace(`the org: ${id} is removed without a trace!`);
  await model.cluster.org.remove('Quote__c', [id]);
}

/** The org refuses a second record with an External ID. */
async function unlessTaken(work: () => Promise<void>): Promise<void> {
  await work().catch((error: unknown) => {
    if (!/DUPLICATE/i.test(String(error))) throw error;
  });
}

/** It gets another External ID or name, is deleted, or restored. */
async function changeMember(model: Model): Promise<void> {
  const { org } = model.cluster;
  const index = Math.floor(model.random() * model.members.length);
  const id = model.members[index] as string;
  const next = randomUUID();
  const edits = { External_Id__c: next, LastName: next };
  const kinds: Record<string, () => Promise<void>> = {
    rename: async () => {
      model.members[index] = next;
      await org.edit('Contact', { External_Id__c: id }, edits);
    },
    edit: () => org.edit('Contact', { External_Id__c: id }, { LastName: next }),
    delete: () => org.bin('Contact', id),
    undelete: () => org.bin('Contact', id, 'undelete'),
  };
  const kind = model.pick(Object.keys(kinds));
  model.trace(`the org: ${kind} of member ${id}!`);
  await kinds[kind]?.();
}

async function create(model: Model): Promise<void> {
  const { name, details } = model.nextValues();
  const [trip, member] = [model.pick(model.trips), model.pick(model.members)];
  const body = `{"trip_id":"${trip}","member_id":"${member}","name":"${name}","source":"s","details":${details}}`;
  const { status, text } = await model.send('POST', '/v1/quotes', { body, isKeyed: true });
  if (status === 201) acknowledge(model, (JSON.parse(text) as { id: string }).id, name);
}

/** Without a key it needs no database. */
async function handOff(model: Model): Promise<void> {
  const { name, details } = model.nextValues();
  const [trip, member] = [model.pick(model.trips), model.pick(model.members)];
  const result = `{"name":"${name}","source":"s","details":${details}}`;
  const body = `{"type":"quote","trip_id":"${trip}","member_id":"${member}","result":${result}}`;
  const { status, text } = await model.send('POST', '/api/v1/handoff', { body });
  if (status === 201) acknowledge(model, (JSON.parse(text) as { external_id: string }).external_id, name);
}

async function change(model: Model, id: string): Promise<void> {
  const { name, details } = model.nextValues();
  const trip = model.random() < 0.3 ? `,"trip_id":"${model.pick(model.trips)}"` : '';
  const member = model.random() < 0.3 ? `,"member_id":"${model.pick(model.members)}"` : '';
  const body = `{"name":"${name}","details":${details}${trip}${member}}`;
  model.trace(`PATCH of ${id} begins: ${name}`);
  const { status, text } = await model.send('PATCH', `/v1/quotes/${id}`, { body, isKeyed: true });
  // The record may have got another id meanwhile.
  if (status === 200) acknowledge(model, (JSON.parse(text) as { id: string }).id, name);
}

async function remove(model: Model, id: string): Promise<void> {
  const from = model.history.look();
  model.trace(`DELETE of ${id} begins`);
  const { status } = await model.send('DELETE', `/v1/quotes/${id}`, { isKeyed: true });
  const to = model.history.look();
  const states = model.history.statesOf('quote', id);
  const gone = states.find(({ shown, change: at }) => shown === null && at > from && at <= to);
  // Somebody else may have deleted it at the same time.
  if (status === 204 && gone !== undefined) raise(model, id, gone.change);
}

function acknowledge(model: Model, id: string, name: string): void {
  model.history.look();
  if (!model.quotes.includes(id)) model.quotes.push(id);
  const state = model.history.statesOf('quote', id).find(({ shown }) => shown?.includes(`"${name}"`));
  if (state === undefined) model.report(`${id} is not ${name} although that was acknowledged`, id);
  else raise(model, id, state.change);
}

function raise(model: Model, id: string, at: number): void {
  model.trace(`${id} has change ${at} acknowledged`);
  model.floors.set(id, Math.max(at, model.floors.get(id) ?? 0));
}
