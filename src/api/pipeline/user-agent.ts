import type { IncomingHttpHeaders } from 'node:http';
import { copyOfText, escapeInvisible } from '../../platform/base/text.ts';

/** Characters that are kept of what a client calls itself. */
const maxLength = 255;

/** At most 255 characters; null where the client sends none. 50,000 attempts may hold one. */
export function userAgentOf({ 'user-agent': name }: IncomingHttpHeaders): string | null {
  if (name === undefined) return null;
  const shown = escapeInvisible(name.slice(0, maxLength));
  return shown === name ? name : copyOfText(shown.slice(0, maxLength));
}
