import { Type } from 'typebox';
import { isNetwork } from '../../platform/base/networks.ts';
import { setting, text } from '../../platform/settings/setting.ts';
import type { SettingsOf, SettingsPart } from '../../platform/settings/table.ts';

export const partnerWebhooksSettings = {
  'changes.privateNetworks': setting(
    'CHANGES_PRIVATE_NETWORKS',
    Type.Array(text, { maxItems: 64 }),
    ({ production }) => (production ? [] : ['127.0.0.0/8', '::1/128']),
    'CIDR blocks of private networks that webhook endpoints may be in, or `none`; defaults to loopback outside production, else none.',
    { normalize: (blocks) => blocks.filter((block) => block !== 'none') },
  ),
};

export type PartnerWebhooksSettings = SettingsOf<typeof partnerWebhooksSettings>;

export const partnerWebhooksPart: SettingsPart = {
  table: partnerWebhooksSettings,
  // One that is misspelt would open what was not meant, or nothing.
  check({ raw, named }) {
    const blocks = (raw['changes.privateNetworks'] ?? []) as string[];
    const isNone = blocks.length === 1 && blocks[0] === 'none';
    return blocks
      .filter((block) => !isNone && !isNetwork(block))
      .map((block) => `${named('changes.privateNetworks')}: ${JSON.stringify(block)} is not a CIDR block`);
  },
};
