import { options } from 'preact';

/** The text with what turns its direction as an escape, as in JSON: `00.0001` must not look like `1000.00`. */
export function visible(text: string): string {
  return text.replace(
    /\p{Bidi_Control}/gu,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Attributes that people see or hear. What a box holds stays as it is: it is sent again. */
const shownAttributes = ['title', 'aria-label'];

// Every text that is laid out passes here, also one that stands in no markup of its own.
const { vnode: before } = options;
options.vnode = (vnode) => {
  const node = vnode as { type: unknown; props: unknown };
  if (node.type === null) node.props = visible(String(node.props));
  else if (typeof node.type === 'string') showAttributes(node.props as Record<string, unknown>);
  before?.(vnode);
};

function showAttributes(props: Record<string, unknown>): void {
  for (const name of shownAttributes) {
    const text = props[name];
    if (typeof text === 'string') props[name] = visible(text);
  }
}
