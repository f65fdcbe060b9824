import { render } from 'preact';
import { App } from './app.tsx';
import { listenForResults } from './hand-off/passed-results.ts';

listenForResults();
const root = document.getElementById('console');
if (root !== null) render(<App />, root);
