/** One sample of a page in Prometheus's text format. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

interface Family {
  name: string;
  type: string | undefined;
  help: string | undefined;
}

export function samplesOf(page: string): Sample[] {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const [, name = '', labels = '', value] = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    return {
      name,
      labels: Object.fromEntries(pairs.map(([, k = '', v = '']) => [k, v])),
      value: Number(value),
    };
  });
}

/** What Prometheus's naming rules have against a metric, by what they have against it. */
const rules: Record<string, (family: Family) => boolean> = {
  'has no help': ({ help = '' }) => !/^[A-Z\d].{10,}\.?$/.test(help),
  'is not in lower case with underscores': ({ name }) => !/^[a-z][a-z\d]*(_[a-z\d]+)*$/.test(name),
  'has no prefix of ours or of Node': ({ name }) => !/^(handoff|http_server|nodejs|process)_/.test(name),
  'is a counter without _total': ({ name, type }) => type === 'counter' && !name.endsWith('_total'),
  'has _total and is no counter': ({ name, type }) => type !== 'counter' && name.endsWith('_total'),
  'has a suffix that histograms add': ({ name }) => /_(bucket|count|sum)$/.test(name),
  'names its type': ({ name }) => /_(gauge|counter|histogram|summary)(_|$)/.test(name),
  'has a unit that is no base unit': ({ name }) =>
    /_(ms|milliseconds|microseconds|minutes|hours|days|kb|mb|kilobytes|megabytes|percent|pct)(_|$)/.test(
      name,
    ),
};

/** Faults of a metrics page, one text each; the rules are those of promtool, and some of our own. */
export function lintMetrics(page: string): string[] {
  return familiesOf(page).flatMap((family) =>
    Object.entries(rules)
      .filter(([, isBroken]) => isBroken(family))
      .map(([fault]) => `${family.name} ${fault}`),
  );
}

function familiesOf(page: string): Family[] {
  const read = (what: string) =>
    new Map(
      [...page.matchAll(new RegExp(`^# ${what} (\\S+) ?(.*)$`, 'gm'))].map(([, name = '', text = '']) => [
        name,
        text,
      ]),
    );
  const [types, helps] = [read('TYPE'), read('HELP')];
  return [...types].map(([name, type]) => ({ name, type, help: helps.get(name) }));
}
