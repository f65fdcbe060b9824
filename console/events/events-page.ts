import type { VNode } from 'preact';
import { html } from '../shared/html.ts';
import { Feed } from './feed.ts';

/** What has happened to records, whoever did it. */
export function EventsPage(): VNode {
  return html`<h1>Events</h1>
    <${Feed} />`;
}
