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
  /** Points further apart than this are not joined, in milliseconds. */
  gapMs: number;
  /** Of the hours of one day where left out. */
  axis?: { ticks: number[]; label: (at: number) => string; period: string };
}

const height = 120;
const edge = { left: 44, right: 8, top: 8, bottom: 20 };

/** Lines over time. Colours and fonts come from the stylesheet; the numbers are in a table below it, too. */
export function Plot({ title, unit, lines, from, to, gapMs, axis = lastHour(from, to) }: PlotProps): VNode {
  const { box, width } = useWidth();
  const [pointed, point] = useState<number | undefined>();
  const top = niceTop(Math.max(2, ...lines.flatMap(({ points }) => points.map(([, value]) => value))));
  const x = (at: number) => edge.left + ((at - from) / (to - from)) * (width - edge.left - edge.right);
  const y = (value: number) => height - edge.bottom - (value / top) * (height - edge.top - edge.bottom);
  const follow = (event: PointerEvent) => {
    const { left } = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - left - edge.left) / (width - edge.left - edge.right);
    point(from + Math.min(1, Math.max(0, share)) * (to - from));
  };
  return (
    <figure class="plot" ref={box}>
      <figcaption>
        <strong>{title}</strong> <span class="quiet">{unit}</span>
        <span class="readout">
          {lines.map((line, i) => (
            <span class={`line-${i}`}>
              {line.name} {readout(line, pointed)}
            </span>
          ))}
        </span>
      </figcaption>
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={spoken(title, unit, lines, axis.period)}
        onPointerMove={follow}
        onPointerLeave={() => point(undefined)}
      >
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
        {lines.map(({ points }, i) => (
          <path class={`line-${i}`} d={path(points, x, y, gapMs)} />
        ))}
        {pointed !== undefined && (
          <line class="pointer" x1={x(pointed)} x2={x(pointed)} y1={edge.top} y2={height - edge.bottom} />
        )}
      </svg>
    </figure>
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

function path(
  points: Line['points'],
  x: (at: number) => number,
  y: (value: number) => number,
  gapMs: number,
) {
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

/** `14:05`, or `14:05:30`, in the reader's time zone. */
export function clock(at: number, hasSeconds = false): string {
  return new Date(at).toLocaleTimeString('en-GB', { timeStyle: hasSeconds ? 'medium' : 'short' });
}

function short(value: number): string {
  return value.toLocaleString('en', { notation: 'compact', maximumFractionDigits: 1 });
}

function readout({ points }: Line, pointed: number | undefined): string {
  const found = pointed === undefined ? points.at(-1) : points.findLast(([at]) => at <= pointed);
  return found === undefined ? '–' : found[1].toLocaleString('en', { maximumFractionDigits: 1 });
}

function spoken(title: string, unit: string, lines: Line[], period: string): string {
  const parts = lines.map((line) => {
    const highest = Math.max(0, ...line.points.map(([, value]) => value));
    return `${line.name}: now ${readout(line, undefined)}, at most ${short(highest)}`;
  });
  return `${title}, ${unit}, over the last ${period}. ${parts.join('; ')}.`;
}
