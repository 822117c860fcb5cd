// Numbers, sizes and times for people.

import { h } from "./dom.js";

const MISSING = "–";

export const number = (value) => (value === null || value === undefined ? MISSING : value.toLocaleString("en"));

/** A count, with `~` before an estimate. */
export const count = (value, isEstimate = false) =>
  isEstimate && value !== null ? `~${number(value)}` : number(value);

export const plural = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return MISSING;
  const digits = perSecond !== 0 && perSecond < 10 ? 1 : 0;
  return perSecond.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function bytes(value) {
  if (value === null || value === undefined) return MISSING;
  let size = value;
  for (const unit of ["B", "KB", "MB", "GB", "TB"]) {
    if (size < 1024 || unit === "TB")
      return `${size < 10 && unit !== "B" ? size.toFixed(1) : Math.round(size)} ${unit}`;
    size /= 1024;
  }
  return MISSING;
}

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

/** A span: `45 s`, `3 min`, `2.5 h`, `4 d`. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  for (const [size, unit] of UNITS) {
    if (seconds >= size) {
      const value = seconds / size;
      return `${value < 10 && unit !== "min" ? value.toFixed(1).replace(/\.0$/, "") : Math.floor(value)} ${unit}`;
    }
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

/** A moment as its distance from now, with the exact time as title. */
export function when(iso) {
  if (!iso) return MISSING;
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return MISSING;
  const seconds = (Date.now() - moment.getTime()) / 1000;
  const text = seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  return h("time", { datetime: moment.toISOString(), title: exact(moment) }, text);
}

/** `2026-01-31 12:00:05 UTC` */
export const exact = (moment) => `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** The last part of a .NET type's name. */
export const shortType = (name) => (name ? name.split(",")[0].split(/[.+]/).at(-1) : null);
