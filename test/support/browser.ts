import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { buildConsole } from '../../scripts/build-console.js';
import { isNightly } from './nightly.ts';
import { useStarted } from './use-started.ts';

/** Where the pictures of pages are left for people to look at. */
const pictures = join(import.meta.dirname, '../../test-output/console');

/** The machine may be busy: nothing here is about how fast it is. */
const timeoutMs = 60_000;

/** The one without a window first: it does the same in little more than half the time. */
const usualPaths = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

/** A browser of the tests' own. */
export interface TestBrowser {
  /** A page in a profile that no other page has at this time. */
  open(url: string): Promise<TestPage>;
  close(): Promise<void>;
}

export interface TestPage {
  page: Page;
  /** Fails if anything on the page breaks a rule of axe, in any of the looks below, and leaves pictures of it. */
  check(name: string): Promise<void>;
  /** Leaves pictures of what the window shows, in these looks. Fails where the page is wider than the window. */
  picture(name: string): Promise<void>;
  /** Fails if the page has met an error, a violation of its policy, or asked another host for anything. */
  close(): Promise<void>;
}

/** The program named by CHROMIUM, or one at a usual path; undefined where there is none, which with CI=true is an error. */
export function findChromium(): string | undefined {
  const named = process.env['CHROMIUM'];
  const found = named ?? usualPaths.find((path) => existsSync(path));
  if (found === undefined && process.env['CI'] === 'true')
    throw new Error(
      'There is no Chromium: install the Debian package chromium-headless-shell, or name the program in CHROMIUM.',
    );
  return found;
}

/** Skips a suite where there is no browser. */
export const needsChromium = {
  skip: findChromium() === undefined && 'there is no Chromium on this machine',
};

export function useBrowser(): TestBrowser {
  return useStarted(
    () => startBrowser(findChromium() as string),
    (browser) => browser.close(),
  );
}

export async function startBrowser(program: string): Promise<TestBrowser> {
  mkdirSync(pictures, { recursive: true });
  await buildConsole();
  // Root has no sandbox of its own, and containers have little shared memory.
  const isRoot = process.getuid?.() === 0;
  const browser = await chromium.launch({
    executablePath: program,
    args: [
      ...(isRoot ? ['--no-sandbox'] : []),
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--no-first-run',
    ],
    timeout: timeoutMs,
  });
  const idle: BrowserContext[] = [];
  return {
    open: (url) => openPage(url, idle.pop() ?? browser.newContext(profile), (context) => idle.push(context)),
    close: () => browser.close(),
  };
}

const height = 900;
const profile = { colorScheme: 'light', viewport: { width: 1440, height } } as const;
/**
 * How a page is looked at, by pictures in the nightly run only. A rule that neither depends on the colours nor on the width is
 * checked once; `npm test` checks all of them in the last look.
 */
const looks = [
  {
    colorScheme: 'dark',
    width: 375,
    rules: ['color-contrast', 'target-size', 'scrollable-region-focusable'],
  },
  { colorScheme: 'light', width: 1440, rules: undefined },
] as const;

/** A page in a profile that nobody else has now. It is given back without what it kept: a new one takes a second. */
async function openPage(
  url: string,
  given: BrowserContext | Promise<BrowserContext>,
  giveBack: (context: BrowserContext) => void,
): Promise<TestPage> {
  const context = await given;
  context.setDefaultTimeout(timeoutMs);
  const page = await context.newPage();
  const faults = await watchFaults(page, new URL(url).origin);
  await page.goto(url);
  const see = async (name: string, { colorScheme, width }: (typeof looks)[number], fullPage: boolean) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    const path = join(pictures, `${name}-${colorScheme}-${width}.png`);
    if (isNightly) await page.screenshot({ path, fullPage });
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    assert.ok(overflow <= 0, `${name} is ${overflow} px wider than the window`);
  };
  return {
    page,
    async picture(name) {
      for (const look of looks) await see(name, look, false);
    },
    async check(name) {
      for (const look of looks) {
        await see(name, look, true);
        const { colorScheme, width, rules } = look;
        if (rules !== undefined && !isNightly) continue;
        const axe = new AxeBuilder({ page });
        const { violations } = await (rules === undefined ? axe : axe.withRules([...rules])).analyze();
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(', ')}`);
        assert.deepEqual(found, [], `${name}, ${colorScheme}, ${width} wide`);
      }
    },
    async close() {
      // With every page that this one has opened.
      const windows = context.pages();
      await page.evaluate('localStorage.clear()');
      for (const one of windows) await one.close();
      await context.clearCookies();
      giveBack(context);
      assert.deepEqual(faults, []);
    },
  };
}

/** What no page may do, as it happens. */
async function watchFaults(page: Page, origin: string): Promise<string[]> {
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // The browser says so of every answer that is no success; what the page makes of it is tested.
    const isAnswer = message
      .text()
      .startsWith('Failed to load resource: the server responded with a status of');
    if (['error', 'warning'].includes(message.type()) && !isAnswer) faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`another host: ${request.url()}`);
  });
  await page.exposeFunction('reportViolation', (what: string) => faults.push(`policy: ${what}`));
  await page.addInitScript(`addEventListener('securitypolicyviolation', (event) => {
    reportViolation(event.violatedDirective + ' ' + event.blockedURI);
  })`);
  return faults;
}
