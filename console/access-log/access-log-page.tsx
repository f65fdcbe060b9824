import type { VNode } from 'preact';
import { AttemptLog } from './attempt-log.tsx';
import { ChangeLog } from './change-log.tsx';

/** Who called with which key, and who changed consumers. `route`: `changes` for the latter. */
export function AccessLogPage({ route: [tab] }: { route: string[] }): VNode {
  const isChanges = tab === 'changes';
  return (
    <>
      <h1>Access log</h1>
      <div class="tabs" role="group" aria-label="Kinds of entries">
        <a href="#/access-log" aria-current={isChanges ? undefined : 'page'}>
          Requests
        </a>
        <a href="#/access-log/changes" aria-current={isChanges ? 'page' : undefined}>
          Changes
        </a>
      </div>
      {isChanges ? <ChangeLog /> : <AttemptLog />}
    </>
  );
}
