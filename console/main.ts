import { render } from 'preact';
import { App } from './app.ts';
import { listenForResults } from './hand-off/passed-results.ts';
import { html } from './shared/html.ts';

listenForResults();
const place = document.getElementById('console');
if (place !== null) render(html`<${App} />`, place);
