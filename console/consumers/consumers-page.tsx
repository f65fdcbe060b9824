import type { VNode } from 'preact';
import { ConsumerList } from './consumer-list.tsx';
import { ConsumerPage } from './consumer-page.tsx';

/** The programs and desks that may call, each on a page of its own. `route`: the id of one. */
export function ConsumersPage({ route: [id] }: { route: string[] }): VNode {
  return id === undefined ? <ConsumerList /> : <ConsumerPage key={id} id={id} />;
}
