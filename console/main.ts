import { render } from 'preact';
import { App } from './app.ts';
import { listenForResults } from './hand-off/passed-results.ts';
import { html } from './shared/html.ts';

listenForResults();
const root = document.getElementById('console');
if (root !== null) render(html`<${App} />`, root);
