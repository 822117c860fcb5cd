// Small charts as SVG. Each has its figures as a label, for screen readers.

import { svg } from "./dom.js";
import { exact, number, plural, span } from "./format.js";

/** The depth over time: `[[seconds since 1970, messages], …]`. */
export function sparkline(history, width = 112, height = 26) {
  if (history.length < 2) return null;
  const [first, last] = [history[0][0], history.at(-1)[0]];
  const depths = history.map(([, depth]) => depth);
  const [low, high] = [Math.min(...depths), Math.max(...depths)];
  const x = (time) => ((time - first) / (last - first || 1)) * width;
  const y = (depth) => height - 1.5 - (depth / (high || 1)) * (height - 3);
  const line = history.map(([time, depth]) => `${x(time).toFixed(1)},${y(depth).toFixed(1)}`).join(" ");
  const label = `Over the last ${span(last - first)}: between ${number(low)} and ${plural(high, "message")}`;
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("polygon", { class: "area", points: `0,${height} ${line} ${width},${height}` }),
    svg("polyline", { class: "line", points: line }),
  );
}

/** Bar of a queue's depth against the deepest queue. It has no label, because the number is beside it. */
export function bar(value, most) {
  const length = most > 0 ? Math.max(value > 0 ? 1.5 : 0, (value / most) * 64) : 0;
  return svg(
    "svg",
    { class: "bar", viewBox: "0 0 64 6", width: 64, height: 6, "aria-hidden": "true" },
    svg("rect", { class: "track", width: 64, height: 6, rx: 3 }),
    svg("rect", { class: "fill", width: length, height: 6, rx: 3 }),
  );
}

/** Messages over time: `[[ISO time, messages], …]`; times without messages may be missing. */
export function histogram(bins, { width = 150, height = 28 } = {}) {
  if (!bins.length) return null;
  const times = bins.map(([time]) => Date.parse(time));
  const gaps = times.slice(1).map((time, index) => time - times[index]);
  const step = Math.max(1000, gaps.length ? Math.min(...gaps.filter((gap) => gap > 0)) : 3600e3);
  const begin = times[0];
  const whole = times.at(-1) + step - begin;
  const most = Math.max(...bins.map(([, messages]) => messages), 1);
  const total = bins.reduce((sum, [, messages]) => sum + messages, 0);
  const each = Math.max(1, (step / whole) * width - 1);
  const bars = bins.map(([time, messages], index) => {
    const tall = messages ? Math.max(1.5, (messages / most) * (height - 2)) : 0;
    const x = ((times[index] - begin) / whole) * width;
    const note = svg("title", {}, `${exact(new Date(time))}: ${number(messages)}`);
    return svg(
      "rect",
      { class: "fill", x: x.toFixed(1), y: height - tall, width: each.toFixed(1), height: tall },
      note,
    );
  });
  const label = `${plural(total, "message")} from ${exact(new Date(begin))} to ${exact(new Date(times.at(-1)))}, at most ${number(most)} at a time`;
  return svg(
    "svg",
    { class: "histogram", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    bars,
  );
}
