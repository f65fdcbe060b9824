import type { RouteAnswer } from '../../../api/route.ts';

interface Page {
  status: number;
  title: string;
  text: string;
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escape = (text: string) => text.replace(/[&<>"']/g, (character) => entities[character] as string);

const headers = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

export function refusalPage({ status, title, text }: Page): RouteAnswer {
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(title)} – Handoff Gateway</title>
</head>
<body>
<main>
<h1>${escape(title)}</h1>
<p>${escape(text)}</p>
<p><a href="/console/sign-in">Try again</a> or <a href="/console/">go to the console</a>.</p>
</main>
</body>
</html>
`;
  return {
    status,
    body,
    headers: { ...headers, 'content-type': 'text/html; charset=utf-8' },
  };
}

export function leadTo(location: string, ...cookies: string[]): RouteAnswer {
  return {
    status: 303,
    headers: {
      location,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    },
    cookies,
  };
}
