import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Line {
  name: string;
  /** Milliseconds since 1970, and the value. */
  points: [at: number, value: number][];
}

interface PlotProps {
  title: string;
  unit: string;
  lines: Line[];
  from: number;
  to: number;
  /** Length of what a point stands for. Points further apart than one and a half of it are not joined. */
  stepMs: number;
  /** Counts stand as bars, each the sum of a part of the time; levels are joined to lines. */
  look?: 'bars' | 'lines';
  /** Of the hours of one day where left out. */
  axis?: { ticks: number[]; label: (at: number) => string; period: string };
  /** How a moment is read out. */
  moment?: (at: number) => string;
}

const height = 120;
const edge = { left: 44, right: 8, top: 8, bottom: 20 };
/** Narrower than this, a bar is not seen. */
const narrowestBar = 5;

/** Lines or bars over time. A pointer or the arrow keys move a marker, whose values are shown and read out. */
export function Plot({ title, unit, look = 'lines', from, to, stepMs, ...given }: PlotProps): VNode {
  const { box, width } = useWidth();
  const [marked, mark] = useState<number | undefined>();
  const { axis = lastHour(from, to), moment = clockOf(stepMs) } = given;
  const inner = width - edge.left - edge.right;
  const barMs = look === 'bars' ? barLength(to - from, stepMs, inner) : 0;
  const lines = barMs > 0 ? given.lines.map((line) => inBars(line, barMs)) : given.lines;
  const times = [...new Set(lines.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const follow = ({ currentTarget, clientX }: MouseEvent) => {
    const { left } = (currentTarget as Element).getBoundingClientRect();
    const at = from + ((clientX - left - edge.left) / inner) * (to - from);
    mark(times.findLast((time) => time <= at) ?? times[0]);
  };
  const move = (event: KeyboardEvent) => {
    const wanted = nextMark(event.key, times, marked);
    if (wanted === undefined) return;
    event.preventDefault();
    mark(wanted);
  };
  const shown = lines.map((line) => `${line.name} ${valueAt(line, marked)}`).join(', ');
  const last = Math.max(0, times.length - 1);
  const shownAt = marked ?? times[last];
  const when = shownAt === undefined ? 'No data' : moment(shownAt);
  return (
    <figure class="plot" ref={box}>
      <figcaption>
        <strong>{title}</strong> <span class="quiet">{barMs > 0 ? `per ${lengthInWords(barMs)}` : unit}</span>
        <span class="readout">
          <span class="quiet">{when}</span>
          {lines.map((line, i) => (
            <span class={`line-${i}`}>
              {line.name} {valueAt(line, marked)}
            </span>
          ))}
        </span>
      </figcaption>
      <svg
        width={width}
        height={height}
        role="slider"
        tabindex={0}
        aria-label={spoken(title, unit, lines, axis.period)}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={marked === undefined ? last : times.indexOf(marked)}
        aria-valuetext={`${when}: ${shown}`}
        onPointerMove={follow}
        onPointerLeave={() => mark(undefined)}
        onKeyDown={move}
        onBlur={() => mark(undefined)}
      >
        <Drawing {...{ from, to, width, lines, barMs, axis, marked }} gapMs={stepMs * 1.5} />
      </svg>
    </figure>
  );
}

interface DrawingProps {
  from: number;
  to: number;
  width: number;
  lines: readonly Line[];
  /** 0: lines in place of bars. */
  barMs: number;
  gapMs: number;
  axis: NonNullable<PlotProps['axis']>;
  marked: number | undefined;
}

function Drawing({ from, to, width, lines, barMs, gapMs, axis, marked }: DrawingProps): VNode {
  const top = niceTop(Math.max(2, ...heights(lines, barMs > 0)));
  const x = (at: number) =>
    edge.left + Math.max(0, (at - from) / (to - from)) * (width - edge.left - edge.right);
  const y = (value: number) => height - edge.bottom - (value / top) * (height - edge.top - edge.bottom);
  const pointer = marked === undefined ? undefined : x(marked + barMs / 2);
  return (
    <>
      {[0, top / 2, top].map((value) => (
        <g key={value}>
          <line class="grid" x1={edge.left} x2={width - edge.right} y1={y(value)} y2={y(value)} />
          <text class="axis" x={edge.left - 6} y={y(value) + 4} text-anchor="end">
            {short(value)}
          </text>
        </g>
      ))}
      {axis.ticks.map((at) => (
        <text key={at} class="axis" x={x(at)} y={height - 4} text-anchor="middle">
          {axis.label(at)}
        </text>
      ))}
      {lines.map(({ points }, i) =>
        barMs > 0 ? (
          <path class={`bar-${i}`} d={barsPath(points, lines.slice(0, i), x, y, barMs)} />
        ) : (
          <path class={`line-${i}`} d={linePath(points, x, y, gapMs)} />
        ),
      )}
      {pointer !== undefined && (
        <line class="pointer" x1={pointer} x2={pointer} y1={edge.top} y2={height - edge.bottom} />
      )}
    </>
  );
}

/** The width that the page gives it. */
function useWidth() {
  const box = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    // Without the padding: what is wider would be cut off at the right, where the newest points are.
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(200, entry.contentRect.width)),
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { box, width };
}

/** Where a key leads; undefined for a key that leads nowhere. */
function nextMark(key: string, times: readonly number[], marked: number | undefined): number | undefined {
  const last = times.length - 1;
  const now = marked === undefined ? last : times.indexOf(marked);
  const places: Record<string, number> = {
    ArrowLeft: Math.max(0, marked === undefined ? last : now - 1),
    ArrowRight: Math.min(last, now + 1),
    PageUp: Math.max(0, now - 10),
    PageDown: Math.min(last, now + 10),
    Home: 0,
    End: last,
  };
  return times[places[key] ?? -1];
}

/** The shortest of a step, of whole minutes and of more that is wide enough. */
function barLength(periodMs: number, stepMs: number, width: number): number {
  const lengths = [stepMs, ...[1, 2, 5, 10, 15, 30, 60].map((minutes) => minutes * 60_000)];
  return lengths.find((ms) => ms >= stepMs && (ms / periodMs) * width >= narrowestBar) ?? stepMs;
}

function lengthInWords(ms: number): string {
  if (ms < 60_000) return `${ms / 1000} s`;
  if (ms === 60_000) return 'minute';
  return ms < 86_400_000 ? `${ms / 60_000} min` : 'day';
}

/** Sums of whole bars. The time of a bar is where it begins. */
function inBars({ name, points }: Line, barMs: number): Line {
  const sums = new Map<number, number>();
  for (const [at, value] of points) {
    const begin = Math.floor(at / barMs) * barMs;
    sums.set(begin, (sums.get(begin) ?? 0) + value);
  }
  return { name, points: [...sums] };
}

type Scale = (value: number) => number;

/** Sums where bars are stacked. */
function heights(lines: readonly Line[], isStacked: boolean): number[] {
  if (!isStacked) return lines.flatMap(({ points }) => points.map(([, value]) => value));
  return lines.flatMap((line, i) =>
    line.points.map(([at, value]) => value + heightAt(lines.slice(0, i), at)),
  );
}

function heightAt(below: readonly Line[], at: number): number {
  return below.reduce((sum, { points }) => sum + (points.find(([one]) => one === at)?.[1] ?? 0), 0);
}

function barsPath(points: Line['points'], below: readonly Line[], x: Scale, y: Scale, barMs: number): string {
  return points
    .filter(([, value]) => value > 0)
    .map(([at, value]) => {
      const foot = heightAt(below, at);
      const width = Math.max(1, x(at + barMs) - x(at) - 1);
      return `M${x(at).toFixed(1)} ${y(foot).toFixed(1)}V${y(foot + value).toFixed(1)}h${width.toFixed(1)}V${y(foot).toFixed(1)}Z`;
    })
    .join('');
}

function linePath(points: Line['points'], x: Scale, y: Scale, gapMs: number) {
  return points
    .map(([at, value], i) => {
      const before = points[i - 1];
      const isApart = before === undefined || at - before[0] > gapMs;
      // One point alone is a dot.
      const next = points[i + 1];
      const dot = isApart && (next === undefined || next[0] - at > gapMs) ? 'h1' : '';
      return `${isApart ? 'M' : 'L'}${x(at).toFixed(1)} ${y(value).toFixed(1)}${dot}`;
    })
    .join('');
}

/** The next of 2, 4, 6, 10, 20 … at or above it: half of it, in the middle, is a whole number, too. */
function niceTop(value: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 4, 6, 10].map((step) => step * size).find((one) => one >= value) ?? 10 * size;
}

function lastHour(from: number, to: number): NonNullable<PlotProps['axis']> {
  return { ticks: quarters(from, to), label: clock, period: 'hour' };
}

function quarters(from: number, to: number): number[] {
  const step = 15 * 60_000;
  const first = Math.ceil((from + step / 3) / step) * step;
  return [0, 1, 2, 3].map((i) => first + i * step).filter((at) => at < to - step / 4);
}

function clockOf(stepMs: number): (at: number) => string {
  return (at) => clock(at, stepMs < 60_000);
}

/** `14:05`, or `14:05:30`, in the reader's time zone. */
export function clock(at: number, hasSeconds = false): string {
  return new Date(at).toLocaleTimeString('en-GB', { timeStyle: hasSeconds ? 'medium' : 'short' });
}

function short(value: number): string {
  return value.toLocaleString('en', { notation: 'compact', maximumFractionDigits: 1 });
}

/** At the marked time, else the newest. */
function valueAt({ points }: Line, marked: number | undefined): string {
  const found = marked === undefined ? points.at(-1) : points.findLast(([at]) => at <= marked);
  return found === undefined ? '–' : found[1].toLocaleString('en', { maximumFractionDigits: 1 });
}

function spoken(title: string, unit: string, lines: Line[], period: string): string {
  const parts = lines.map((line) => {
    const highest = Math.max(0, ...line.points.map(([, value]) => value));
    return `${line.name}: now ${valueAt(line, undefined)}, at most ${short(highest)}`;
  });
  return `${title}, ${unit}, over the last ${period}. ${parts.join('; ')}.`;
}
