/** Small line charts side by side in one SVG that follows the reader's light or dark. */
export type Chart = {
  title: string;
  unit: string;
  x: string;
  /** In the order of x; the same for each line. Spread by their logarithm: sizes are powers of each other. */
  at: number[];
  isEven?: boolean;
  lines: { name: string; values: number[] }[];
};

const WIDTH = 300;
const HEIGHT = 210;
const PLOT = { left: 52, right: 14, top: 44, bottom: 40 };
const COLUMNS = 3;
const MOST_MARKS = 7;
const MOST_DOTS = 12;
const COLOURS = ["var(--a)", "var(--b)", "var(--c)"];

const STYLE = `
  svg { --ink: #24292f; --soft: #6e7781; --grid: #d0d7de; --a: #0969da; --b: #bc4c00; --c: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6edf3; --soft: #8d96a0; --grid: #30363d; --a: #58a6ff; --b: #f0883e; --c: #3fb950; }
  }
  text { font: 11px system-ui, sans-serif; fill: var(--soft); }
  .title { font-weight: 600; font-size: 12px; fill: var(--ink); }
  .grid { stroke: var(--grid); stroke-width: 1; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; }`;

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** 1,000 as 1k, 0.25 as it is. */
export function short(value: number): string {
  if (value >= 1_000_000) return `${trimmed(value / 1_000_000)}M`;
  if (value >= 1_000) return `${trimmed(value / 1_000)}k`;
  return trimmed(value);
}
const trimmed = (value: number): string => String(Number(value.toPrecision(3)));

/** The next 1, 2 or 5 times a power of ten: an axis that ends there has round marks. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999_999)!;
}

/** All go from zero: a flat line says that x does not matter. */
function panel({ title, unit, x, at, isEven, lines }: Chart): string {
  const [width, height] = [WIDTH - PLOT.left - PLOT.right, HEIGHT - PLOT.top - PLOT.bottom];
  const most = roundUp(Math.max(...lines.flatMap(({ values }) => values)));
  const place = isEven ? (value: number) => value : Math.log;
  const [low, high] = [place(Math.min(...at)), place(Math.max(...at))];
  const across = (value: number) =>
    PLOT.left + (high === low ? width / 2 : ((place(value) - low) / (high - low)) * width);
  const every = Math.ceil(at.length / MOST_MARKS);
  const up = (value: number) => PLOT.top + height - (value / most) * height;
  const fixed = (value: number) => value.toFixed(1);
  const text = (x: number, y: number, anchor: string, words: string, kind = "") =>
    `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}"${kind}>${escaped(words)}</text>`;
  const marks = [0, 0.5, 1].map((share) => share * most);
  return [
    text(PLOT.left, 16, "start", title, ' class="title"'),
    ...marks.map(
      (mark) =>
        `<line class="grid" x1="${PLOT.left}" x2="${WIDTH - PLOT.right}" y1="${fixed(up(mark))}" y2="${fixed(up(mark))}"/>` +
        text(PLOT.left - 6, up(mark) + 4, "end", short(mark)),
    ),
    text(PLOT.left, PLOT.top - 8, "start", unit),
    ...at
      .filter((_, n) => n % every === 0)
      .map((value) => text(across(value), HEIGHT - PLOT.bottom + 16, "middle", short(value))),
    text(PLOT.left + width / 2, HEIGHT - 8, "middle", x),
    ...lines.flatMap(({ name, values }, n) => {
      const colour = COLOURS[n % COLOURS.length]!;
      const points = values.map((value, index) => `${fixed(across(at[index]!))},${fixed(up(value))}`);
      return [
        `<polyline class="line" stroke="${colour}" points="${points.join(" ")}"/>`,
        ...(points.length > MOST_DOTS ? [] : points).map((point) => {
          const [cx, cy] = point.split(",");
          return `<circle cx="${cx}" cy="${cy}" r="3" fill="${colour}"/>`;
        }),
        ...(lines.length > 1
          ? [
              `<text x="${WIDTH - PLOT.right}" y="${fixed(up(values.at(-1)!) - 8)}" text-anchor="end" style="fill: ${colour}">${escaped(name)}</text>`,
            ]
          : []),
      ];
    }),
  ].join("\n");
}

export function svgOf(title: string, charts: Chart[]): string {
  const columns = Math.min(COLUMNS, charts.length);
  const [width, height] = [columns * WIDTH, Math.ceil(charts.length / columns) * HEIGHT];
  const panels = charts.map(
    (chart, n) =>
      `<g transform="translate(${(n % columns) * WIDTH} ${Math.floor(n / columns) * HEIGHT})">\n${panel(chart)}\n</g>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>${STYLE}
</style>
${panels.join("\n")}
</svg>
`;
}
