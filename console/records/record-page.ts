import type { VNode } from 'preact';
import { html } from '../shared/html.ts';
import { fieldsOf } from '../shared/json-text.ts';
import { useLoad } from '../shared/load.ts';
import { Freshness, Json, ProblemAlert } from '../shared/parts.ts';
import { Ago } from '../shared/time.ts';

/** One record with all its fields, digit for digit. */
export function RecordPage({ collection, id }: { collection: string; id: string }): VNode {
  const path = `/v1/${collection}/${encodeURIComponent(id)}`;
  const loaded = useLoad(path, async ({ send }) => (await send(path)).text);
  const { data, problem } = loaded;
  return html`<${Freshness} of=${loaded} />
    ${problem && html`<${ProblemAlert} problem=${problem} />`}
    ${data !== undefined && html`<dl class="fields">${fieldsOf(data).map(({ name, text }) => html`<dt>${name}</dt><dd>${show(name, text)}</dd>`)}</dl>`}
    <p><a href=${`#/records/${collection}`}>Back to the list</a></p>`;
}

function show(name: string, json: string) {
  if (/^[{[]/.test(json)) return html`<${Json} text=${json} label=${name} />`;
  if (json === 'null') return html`<span class="quiet">–</span>`;
  const text = json.startsWith('"') ? (JSON.parse(json) as string) : json;
  return name.endsWith('_at') ? html`<${Ago} at=${text} /> <span class="quiet">${text}</span>` : text;
}
