import type { CreatedConsumer } from '@handoff-gateway/client';
import type { VNode } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../shared/api.ts';
import { faultAt, hintOf, isShownAt } from '../shared/faults.ts';
import { crmName } from '../shared/page-facts.ts';
import { Choice, Field, ProblemAlert } from '../shared/parts.tsx';
import type { Permission } from '../shared/permissions.ts';
import { isTest, type NewSecret, useSession } from '../shared/session.ts';
import { actions, type Change, type Consumer, ownable, pathOf, resources, withFields } from './consumer.ts';

interface FormProps {
  /** The consumer that is changed; undefined for a new one. */
  edited: Consumer | undefined;
  change: Change;
  onClose: () => void;
}

/** Makes a consumer, or changes one. */
export function ConsumerForm({ edited, change, onClose }: FormProps): VNode {
  const { showSecret, say, consumer } = useSession();
  const [draft, setDraft] = useState(() => draftOf(edited));
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>();
  const form = useRef<HTMLFormElement>(null);
  // What has to be corrected may be far above the button.
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus(), [problem]);
  const set = (changed: Partial<Draft>) => setDraft({ ...draft, ...changed });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    if (draft.allowed.length === 0) return setProblem(noPermission);
    const request = requestOf(draft, edited);
    if (Object.keys(request).length === 0) return onClose();
    setProblem(undefined);
    setBusy(true);
    const path = edited ? pathOf(edited.id) : '/v1/admin/consumers';
    const method = edited ? 'PATCH' : 'POST';
    try {
      const text = await change(path, { method, body: JSON.stringify(request) });
      if (edited) say(`Saved ${draft.name}.`);
      else {
        const made = JSON.parse(text) as CreatedConsumer;
        showSecret(secretOf(made));
        location.hash = `#/consumers/${made.id}`;
      }
      onClose();
    } catch (error) {
      setProblem(problemFrom(error));
    }
    setBusy(false);
  };
  return (
    <form ref={form} class="consumer-form" onSubmit={submit}>
      <Field
        label="Name"
        value={draft.name}
        onInput={(name: string) => set({ name })}
        required
        maxLength={100}
        {...hintOf(faultAt(problem, 'name'))}
      />
      {edited === undefined && !isTest(consumer) && (
        <p>
          <Box
            name="Test keys"
            text={`Test keys (nothing reaches ${crmName})`}
            isOn={draft.isTest}
            onSwitch={() => set({ isTest: !draft.isTest })}
          />
        </p>
      )}
      <PermissionBoxes draft={draft} set={set} fault={faultAt(problem, 'permissions')} />
      <details open={edited !== undefined || limitFields.some((field) => faultAt(problem, field))}>
        <summary>Limits</summary>
        <Limits draft={draft} set={set} problem={problem} />
      </details>
      {problem && !isShownAt(problem, ['name', 'permissions', ...limitFields]) && (
        <ProblemAlert problem={problem} />
      )}
      <div class="buttons">
        <button class="primary" aria-busy={isBusy}>
          {edited ? 'Save changes' : 'Create consumer'}
        </button>
        <button type="button" class="plain" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function secretOf({ apiKey, apiSecret, name }: CreatedConsumer): NewSecret {
  return { title: `${name}'s credentials`, apiKey, secret: apiSecret, note: 'They work right away.' };
}

/** Boxes of the limits, by their field in the request. */
const limitFields = [
  ...['validUntil', 'rateLimitPerMinute', 'crmShare', 'allowance'],
  ...['allowedAddresses', 'certificateNames', 'people'],
];

const noPermission: Problem = {
  title: 'No permissions chosen',
  detail: '',
  status: 0,
  code: 'console',
  request_id: null,
  errors: [{ pointer: '#/permissions', message: 'choose at least one permission' }],
};

interface Draft {
  name: string;
  isTest: boolean;
  /** `quotes read` and the like. */
  allowed: string[];
  /** Resources of which it may see its own records only. */
  own: string[];
  /** Resources whose hand-offs another consumer has to approve. */
  withApproval: string[];
  /** By resource, the names of the only fields that it sees; empty: all. */
  fields: Record<string, string>;
  /** In the reader's time zone, as the form has it. */
  validUntil: string;
  rateLimit: string;
  crmShare: string;
  /** Requests for each day or month. */
  allowance: string;
  allowancePer: string;
  addresses: string;
  certificateNames: string;
  /** `groups=travel-desk`, one a line. */
  people: string;
}

interface PartProps {
  draft: Draft;
  set: (changed: Partial<Draft>) => void;
}

interface PermissionProps extends PartProps {
  fault: string | undefined;
}

function PermissionBoxes({ draft, set, fault }: PermissionProps): VNode {
  const { allowed, own, withApproval, fields } = draft;
  const switched = (list: string[], name: string) =>
    list.includes(name) ? list.filter((one) => one !== name) : [...list, name];
  const id = useId();
  const isFaulty = fault === undefined ? undefined : true;
  return (
    <fieldset aria-invalid={isFaulty} aria-describedby={isFaulty && id} tabindex={isFaulty && -1}>
      <legend>Permissions</legend>
      {fault && (
        <p class="fault" id={id} role="alert">
          {fault}
        </p>
      )}
      <table class="permissions">
        <tbody>
          {resources.map((resource) => (
            <tr key={resource}>
              <th scope="row">{resource}</th>
              {actions.map((action) => {
                const name = `${resource} ${action}`;
                return (
                  <td>
                    <Box
                      name={name}
                      text={action}
                      isOn={allowed.includes(name)}
                      onSwitch={() => set({ allowed: switched(allowed, name) })}
                    />
                  </td>
                );
              })}
              <td>
                {ownable.includes(resource) && (
                  <Box
                    name={`only its own ${resource}`}
                    text="own only"
                    isOn={own.includes(resource)}
                    onSwitch={() => set({ own: switched(own, resource) })}
                  />
                )}
              </td>
              <td>
                {ownable.includes(resource) && (
                  <Box
                    name={`${resource} only with approval`}
                    text="with approval"
                    isOn={withApproval.includes(resource)}
                    onSwitch={() => set({ withApproval: switched(withApproval, resource) })}
                  />
                )}
              </td>
              <td>
                {withFields.includes(resource) && (
                  <input
                    aria-label={`only these ${resource} fields`}
                    placeholder="all fields"
                    spellcheck={false}
                    value={fields[resource] ?? ''}
                    title="Field names separated by commas, such as name, status. Leave blank for all fields."
                    onInput={(event: Event) =>
                      set({
                        fields: { ...fields, [resource]: (event.currentTarget as HTMLInputElement).value },
                      })
                    }
                  />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </fieldset>
  );
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
  return (
    <>
      <input type="checkbox" id={id} aria-label={name} checked={isOn} onChange={onSwitch} />
      <label for={id} aria-hidden="true">
        {text}
      </label>
    </>
  );
}

interface LimitProps extends PartProps {
  problem: Problem | undefined;
}

function Limits({ draft, set, problem }: LimitProps): VNode {
  const claims = peopleOf(draft).map(({ claim }) => claim);
  return (
    <div class="columns">
      <Field
        label="Valid until"
        type="datetime-local"
        value={draft.validUntil}
        {...hintOf(faultAt(problem, 'validUntil'), 'Leave blank for no end date.')}
        onInput={(validUntil: string) => set({ validUntil })}
      />
      <Field
        label="Requests per minute"
        type="number"
        min={1}
        value={draft.rateLimit}
        {...hintOf(faultAt(problem, 'rateLimitPerMinute'), 'Leave blank for the default limit.')}
        onInput={(rateLimit: string) => set({ rateLimit })}
      />
      <Field
        label={`Share of ${crmName} calls (%)`}
        type="number"
        min={1}
        max={100}
        value={draft.crmShare}
        {...hintOf(faultAt(problem, 'crmShare'), 'Leave blank to reserve nothing.')}
        onInput={(crmShare: string) => set({ crmShare })}
      />
      <Field
        label="Allowance (requests)"
        type="number"
        min={1}
        value={draft.allowance}
        {...hintOf(faultAt(problem, 'allowance'), 'Leave blank for no limit.')}
        onInput={(allowance: string) => set({ allowance })}
      />
      <Choice
        label="Allowance per"
        value={draft.allowancePer}
        options={periods}
        onChange={(allowancePer) => set({ allowancePer })}
      />
      <Lines
        label="Allowed addresses"
        value={draft.addresses}
        fault={faultAt(problem, 'allowedAddresses', wordsOf(draft.addresses))}
        hint="One IP address or CIDR block per line. Leave blank to allow any address."
        onInput={(addresses) => set({ addresses })}
      />
      <Lines
        label="Client certificates"
        value={draft.certificateNames}
        fault={faultAt(problem, 'certificateNames', wordsOf(draft.certificateNames))}
        hint="One DNS name, URI or e-mail address from the certificate per line. Leave blank if no certificate is needed."
        onInput={(certificateNames) => set({ certificateNames })}
      />
      <Lines
        label="People who can act as this consumer"
        value={draft.people}
        fault={faultAt(problem, 'people', claims)}
        hint="One ID token claim per line, such as groups=travel-desk. Leave blank if nobody should."
        onInput={(people) => set({ people })}
      />
    </div>
  );
}

const periods: ['day' | 'month', string][] = [
  ['day', 'day'],
  ['month', 'month'],
];

interface LinesProps {
  label: string;
  value: string;
  fault: string | undefined;
  hint: string;
  onInput: (value: string) => void;
}

/** A box for a list, one entry a line. */
function Lines({ label, value, fault, hint, onInput }: LinesProps): VNode {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={3}
        spellcheck={false}
        value={value}
        aria-describedby={`${id}-hint`}
        aria-invalid={fault === undefined ? undefined : 'true'}
        onInput={(event: Event) => onInput((event.currentTarget as HTMLTextAreaElement).value)}
      ></textarea>
      <p class="hint" id={`${id}-hint`}>
        {fault ?? hint}
      </p>
    </div>
  );
}

function draftOf(consumer: Consumer | undefined): Draft {
  const { name = '', mode = 'live', permissions = [] } = consumer ?? {};
  return {
    name,
    isTest: mode === 'test',
    allowed: permissions.flatMap(({ resource, actions: list }) =>
      list.map((action) => `${resource} ${action}`),
    ),
    own: permissions.flatMap(({ resource, records }) => (records === 'own' ? [resource] : [])),
    withApproval: permissions.flatMap(({ resource, approval }) => (approval ? [resource] : [])),
    fields: Object.fromEntries(
      permissions.map(({ resource, fields }) => [resource, fields ? fields.join(', ') || 'id' : '']),
    ),
    ...limitsOf(consumer ?? {}),
  };
}

function limitsOf(consumer: Partial<Consumer>) {
  const { validUntil, rateLimitPerMinute, crmShare } = consumer;
  const { requests = '', per = 'day' } = consumer.allowance ?? {};
  const { allowedAddresses = [], certificateNames = [], people = [] } = consumer;
  return {
    validUntil: validUntil ? localTime(validUntil) : '',
    rateLimit: String(rateLimitPerMinute ?? ''),
    crmShare: String(crmShare ?? ''),
    allowance: String(requests),
    allowancePer: per,
    addresses: allowedAddresses.join('\n'),
    certificateNames: certificateNames.join('\n'),
    people: people.map(({ claim, value }) => `${claim}=${value}`).join('\n'),
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
    mode: draft.isTest ? 'test' : 'live',
    permissions: permissionsOf(draft),
    validUntil: draft.validUntil === '' ? null : new Date(draft.validUntil).toISOString(),
    rateLimitPerMinute: draft.rateLimit === '' ? null : Number(draft.rateLimit),
    crmShare: draft.crmShare === '' ? null : Number(draft.crmShare),
    allowance: draft.allowance === '' ? null : { requests: Number(draft.allowance), per: draft.allowancePer },
    allowedAddresses: wordsOf(draft.addresses),
    certificateNames: wordsOf(draft.certificateNames),
    people: peopleOf(draft),
  };
}

function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** A line without a value is sent as it is, for the service to say what is wrong with it. */
function peopleOf({ people }: Draft): { claim: string; value: string }[] {
  return people
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => {
      const [, claim = line, value = ''] = /^([^=]+)=(.*)$/.exec(line) ?? [];
      return { claim: claim.trim(), value: value.trim() };
    });
}

function permissionsOf({ allowed, own, withApproval, fields }: Draft): Permission[] {
  return resources.flatMap((resource) => {
    const granted = actions.filter((action) => allowed.includes(`${resource} ${action}`));
    if (granted.length === 0) return [];
    const named = (fields[resource] ?? '').split(/[\s,]+/).filter(Boolean);
    return [
      {
        ...{ resource, actions: granted },
        ...(own.includes(resource) && { records: 'own' as const }),
        ...(withApproval.includes(resource) && { approval: true }),
        ...(named.length > 0 && { fields: named }),
      },
    ];
  });
}
