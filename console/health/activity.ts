import type { Line } from './plot.tsx';

/** The last hour on all replicas together: `GET /v1/admin/activity`. */
export interface Activity {
  interval_seconds: number;
  budget_exhausted_at: string | null;
  series: { name: string; unit: string; points: [time: string, value: number][] }[];
}

/** The points of a series; none where the service does not know it. */
export function pointsOf({ series }: Activity, wanted: string): Line['points'] {
  const points = series.find(({ name }) => name === wanted)?.points ?? [];
  return points.map(([time, value]) => [Date.parse(time), value]);
}

export function totalOf(activity: Activity, wanted: string): number {
  return pointsOf(activity, wanted).reduce((sum, [, value]) => sum + value, 0);
}

/** Requests that were neither refused nor failed. */
export function answeredIn(activity: Activity): Line['points'] {
  const others = new Map<number, number>();
  for (const name of ['refusals', 'errors'])
    for (const [at, value] of pointsOf(activity, name)) others.set(at, (others.get(at) ?? 0) + value);
  return pointsOf(activity, 'requests').map(([at, value]) => [at, value - (others.get(at) ?? 0)]);
}
