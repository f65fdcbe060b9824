import { Type } from 'typebox';
import { oneOf, seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const handoffSettings = {
  'handoff.whenCrmIsUnavailable': setting(
    'HANDOFF_WHEN_CRM_IS_UNAVAILABLE',
    oneOf('refuse', 'accept'),
    'refuse',
    'While Salesforce is unavailable, hand-offs without `Prefer: respond-async` are refused (502, 503, 504), or stored (202).',
  ),
  'handoff.queueLimit': setting(
    'HANDOFF_QUEUE_LIMIT',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    100_000,
    'Stored hand-offs that may wait; further ones get 503.',
  ),
  'handoff.queueLimitPerConsumer': setting(
    'HANDOFF_QUEUE_LIMIT_PER_CONSUMER',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    (earlier) => Math.max(1, Math.floor(Number(earlier['handoff.queueLimit']) / 5)),
    'The same of one consumer; defaults to a fifth of `handoff.queueLimit`.',
  ),
  'handoff.repeatWindowSeconds': setting(
    'HANDOFF_REPEAT_WINDOW_SECONDS',
    seconds(0, 86_400),
    0,
    'How long an equal hand-off of a consumer without Idempotency-Key counts as a repeat; 0: off.',
  ),
};

export type HandoffSettings = SettingsOf<typeof handoffSettings>;

export const handoffPart: SettingsPart = { table: handoffSettings };
