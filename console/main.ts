import { render } from 'preact';
import { App } from './app.ts';
import { html } from './shared/html.ts';

const place = document.getElementById('console');
if (place !== null) render(html`<${App} />`, place);
