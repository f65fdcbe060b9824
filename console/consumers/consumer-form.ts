import type { VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { RequestOptions } from '../shared/api.ts';
import { html } from '../shared/html.ts';
import { Field } from '../shared/parts.ts';
import { useSession } from '../shared/session.ts';
import { actions, type Consumer, ownable, type Permission, resources } from './consumer.ts';

interface FormProps {
  /** The consumer that is changed; undefined for a new one. */
  edited: Consumer | undefined;
  change: (path: string, options: RequestOptions) => Promise<string | undefined>;
  onClose: () => void;
}

/** Makes a consumer, or changes one. */
export function ConsumerForm({ edited, change, onClose }: FormProps): VNode {
  const { showSecret } = useSession();
  const [draft, setDraft] = useState(() => draftOf(edited));
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // The row where somebody asked for it may be far below.
  useEffect(() => {
    if (edited) form.current?.querySelector('input')?.focus();
  }, []);
  const set = (changed: Partial<Draft>) => setDraft({ ...draft, ...changed });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const request = requestOf(draft, edited);
    if (Object.keys(request).length === 0) return onClose();
    setBusy(true);
    const path = edited ? `/v1/admin/consumers/${edited.id}` : '/v1/admin/consumers';
    const method = edited ? 'PATCH' : 'POST';
    const text = await change(path, { method, body: JSON.stringify(request) });
    setBusy(false);
    if (text === undefined) return;
    if (edited === undefined) {
      const { apiKey, apiSecret, name } = JSON.parse(text) as Consumer & {
        apiKey: string;
        apiSecret: string;
      };
      showSecret({ title: `Credentials of ${name}`, apiKey, secret: apiSecret, note: 'They are valid now.' });
    }
    setDraft(draftOf(undefined));
    onClose();
  };
  return html`<form ref=${form} class="panel consumer-form" onSubmit=${submit}>
    <h2>${edited ? `Change ${edited.name}` : 'New consumer'}</h2>
    <${Field} label="Name" value=${draft.name} onInput=${(name: string) => set({ name })} required maxLength=${100} />
    <${PermissionBoxes} draft=${draft} set=${set} />
    <details open=${edited !== undefined}>
      <summary>Limits</summary>
      <${Limits} draft=${draft} set=${set} />
    </details>
    <div class="buttons">
      <button class="primary" aria-busy=${isBusy}>${edited ? 'Save changes' : 'Create consumer'}</button>
      ${edited && html`<button type="button" class="plain" onClick=${onClose}>Cancel</button>`}
    </div>
  </form>`;
}

interface Draft {
  name: string;
  /** `quotes read` and the like. */
  allowed: string[];
  /** Resources of which it may see its own records only. */
  own: string[];
  /** In the reader's time zone, as the form has it. */
  validUntil: string;
  rateLimit: string;
  addresses: string;
}

interface PartProps {
  draft: Draft;
  set: (changed: Partial<Draft>) => void;
}

function PermissionBoxes({ draft, set }: PartProps): VNode {
  const { allowed, own } = draft;
  const switched = (list: string[], name: string) =>
    list.includes(name) ? list.filter((one) => one !== name) : [...list, name];
  return html`<fieldset>
    <legend>May</legend>
    <table class="permissions">
      <tbody>
        ${resources.map(
          (resource) => html`<tr key=${resource}>
            <th scope="row">${resource}</th>
            ${actions.map((action) => {
              const name = `${resource} ${action}`;
              return html`<td><${Box} name=${name} text=${action} isOn=${allowed.includes(name)}
                onSwitch=${() => set({ allowed: switched(allowed, name) })} /></td>`;
            })}
            <td>
              ${
                ownable.includes(resource) &&
                html`<${Box} name=${`only its own ${resource}`} text="own only" isOn=${own.includes(resource)}
                  onSwitch=${() => set({ own: switched(own, resource) })} />`
              }
            </td>
          </tr>`,
        )}
      </tbody>
    </table>
  </fieldset>`;
}

interface BoxProps {
  name: string;
  text: string;
  isOn: boolean;
  onSwitch: () => void;
}

/** A check box that is read out with all of its name. */
function Box({ name, text, isOn, onSwitch }: BoxProps): VNode {
  const id = useId();
  return html`<input type="checkbox" id=${id} aria-label=${name} checked=${isOn} onChange=${onSwitch} />
    <label for=${id} aria-hidden="true">${text}</label>`;
}

function Limits({ draft, set }: PartProps): VNode {
  const id = useId();
  return html`<div class="columns">
    <${Field} label="Valid until" type="datetime-local" value=${draft.validUntil} hint="Empty: for ever."
      onInput=${(validUntil: string) => set({ validUntil })} />
    <${Field} label="Requests a minute" type="number" min="1" value=${draft.rateLimit} hint="Empty: as for all."
      onInput=${(rateLimit: string) => set({ rateLimit })} />
    <div class="field">
      <label for=${id}>Allowed addresses</label>
      <textarea id=${id} rows="3" spellcheck=${false} value=${draft.addresses} aria-describedby=${`${id}-hint`}
        onInput=${(event: Event) => set({ addresses: (event.currentTarget as HTMLTextAreaElement).value })}></textarea>
      <p class="hint" id=${`${id}-hint`}>One address or block on each line. Empty: from anywhere.</p>
    </div>
  </div>`;
}

function draftOf(consumer: Consumer | undefined): Draft {
  const {
    name = '',
    permissions = [],
    validUntil,
    rateLimitPerMinute,
    allowedAddresses = [],
  } = consumer ?? {};
  return {
    name,
    allowed: permissions.flatMap(({ resource, actions: list }) =>
      list.map((action) => `${resource} ${action}`),
    ),
    own: permissions.flatMap(({ resource, records }) => (records === 'own' ? [resource] : [])),
    validUntil: validUntil ? localTime(validUntil) : '',
    rateLimit: rateLimitPerMinute ? String(rateLimitPerMinute) : '',
    addresses: allowedAddresses.join('\n'),
  };
}

/** As a form's field of date and time writes it. */
function localTime(moment: string): string {
  const at = new Date(moment);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What to send: of a new consumer what was filled in, of an edited one what was changed. */
function requestOf(draft: Draft, edited: Consumer | undefined): Record<string, unknown> {
  const before = fieldsOf(draftOf(edited));
  const isChanged = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(before[name as keyof typeof before]);
  const sent = Object.fromEntries(Object.entries(fieldsOf(draft)).filter(isChanged));
  return edited ? sent : { permissions: [], ...sent };
}

function fieldsOf(draft: Draft) {
  return {
    name: draft.name.trim(),
    permissions: permissionsOf(draft),
    validUntil: draft.validUntil === '' ? null : new Date(draft.validUntil).toISOString(),
    rateLimitPerMinute: draft.rateLimit === '' ? null : Number(draft.rateLimit),
    allowedAddresses: draft.addresses.split(/[\s,]+/).filter(Boolean),
  };
}

function permissionsOf({ allowed, own }: Draft): Permission[] {
  return resources.flatMap((resource) => {
    const granted = actions.filter((action) => allowed.includes(`${resource} ${action}`));
    if (granted.length === 0) return [];
    return [{ resource, actions: granted, ...(own.includes(resource) && { records: 'own' as const }) }];
  });
}
