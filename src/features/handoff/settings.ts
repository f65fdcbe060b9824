import { Type } from 'typebox';
import { oneOf, seconds, setting } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const handoffSettings = {
  'handoff.whenCrmIsUnavailable': setting(
    'HANDOFF_WHEN_CRM_IS_UNAVAILABLE',
    oneOf('refuse', 'accept'),
    'refuse',
    'What happens to a hand-off while the CRM is unavailable, without `Prefer: respond-async`: `refuse` answers 502, 503 or 504, `accept` stores it and answers 202.',
  ),
  'handoff.queueLimit': setting(
    'HANDOFF_QUEUE_LIMIT',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    100_000,
    'Accepted hand-offs that may wait for the CRM; further ones are refused with 503.',
  ),
  'handoff.queueLimitPerConsumer': setting(
    'HANDOFF_QUEUE_LIMIT_PER_CONSUMER',
    Type.Integer({ minimum: 1, maximum: 10_000_000 }),
    (earlier) => Math.max(1, Math.floor(Number(earlier['handoff.queueLimit']) / 5)),
    'Accepted hand-offs of one consumer that may wait for the CRM; further ones are refused with 503. A fifth of `handoff.queueLimit` when not set.',
  ),
  'handoff.repeatWindowSeconds': setting(
    'HANDOFF_REPEAT_WINDOW_SECONDS',
    seconds(0, 86_400),
    0,
    'How long a hand-off without Idempotency-Key counts as a repeat if the same consumer sends the same body again; 0 = off.',
  ),
};

export type HandoffSettings = SettingsOf<typeof handoffSettings>;

export const handoffPart: SettingsPart = { table: handoffSettings };
