/**
 * Shared parts of all charts: colours for light, dark and print, axes, and symbols of series.
 * Pure.
 */
import type { EChartsCoreOption } from 'echarts/core'
import { palette, symbols } from '../../document/chart-options.ts'
import { colours } from '../../style.ts'

export interface Theme {
  readonly dark: boolean
  readonly text: string
  readonly muted: string
  readonly line: string
  readonly faint: string
  readonly surface: string
  readonly accent: string
  readonly warn: string
  readonly good: string
}

const pickColours = (i: 0 | 1) => ({
  text: colours.text[i],
  muted: colours.muted[i],
  surface: colours.surface[i],
  accent: colours.accent[i],
  warn: colours.warn[i],
  good: colours.good[i],
})
export const lightTheme: Theme = {
  ...pickColours(0),
  dark: false,
  line: '#c9d0d9',
  faint: '#eaedf1',
}
export const darkTheme: Theme = { ...pickColours(1), dark: true, line: '#3b4655', faint: '#252d38' }

export type ChartOption = EChartsCoreOption

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'

/** Lighter versions of the Okabe-Ito palette, for dark backgrounds. */
const darkPalette = [
  '#4aa8e0',
  '#f28c4b',
  '#2cc79b',
  '#e4a3c8',
  '#ffffff',
  '#f2b93b',
  '#9ad4f5',
] as const
export const pickColour = (i: number, theme: Theme): string =>
  (theme.dark ? darkPalette : palette)[i % palette.length]!
/** Symbols that are distinguishable without colour; they repeat after seven. */
export const pickSymbol = (i: number): string => symbols[i % symbols.length]!

const grid = { left: 64, right: 24, top: 28, bottom: 48 }

/** Base options: no animation, font of the page. */
export const createBase = (theme: Theme): ChartOption => ({
  animation: false,
  textStyle: { fontFamily: font, color: theme.text },
  grid,
  aria: { enabled: false },
})

export function createAxis(name: string, theme: Theme, more: object = {}): object {
  return {
    name,
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: theme.muted, fontSize: 12 },
    axisLine: { lineStyle: { color: theme.line } },
    axisTick: { lineStyle: { color: theme.line } },
    axisLabel: { color: theme.muted, fontSize: 11, hideOverlap: true, formatter: formatCompact },
    splitLine: { lineStyle: { color: theme.faint } },
    minorSplitLine: { show: false },
    ...more,
  }
}
export const createYAxis = (name: string, theme: Theme, more: object = {}): object =>
  createAxis(name, theme, { nameGap: 46, ...more })

export const createLegend = (theme: Theme, more: object = {}): object => ({
  type: 'scroll',
  top: 0,
  right: 8,
  itemWidth: 12,
  itemHeight: 9,
  itemGap: 14,
  textStyle: { color: theme.muted, fontSize: 12 },
  pageTextStyle: { color: theme.muted },
  pageIconColor: theme.muted,
  ...more,
})

/** 950, 1200, 12k, 18M. */
export function formatCompact(value: number): string {
  const size = Math.abs(value)
  const [divisor, suffix] =
    size >= 1e9 ? [1e9, 'G'] : size >= 1e6 ? [1e6, 'M'] : size >= 1e4 ? [1e3, 'k'] : [1, '']
  return `${Number((value / divisor).toPrecision(4))}${suffix}`
}

/**
 * Creates a logarithmic axis that contains all values, with ticks at powers of two, or of ten for a
 * wide range.
 */
export function createLogAxis(
  values: readonly number[],
  moreValues: readonly number[] = [],
): { type: 'log'; logBase: number; min: number; max: number } {
  let low = Number.POSITIVE_INFINITY
  let high = 0
  for (const list of [values, moreValues])
    for (const v of list) {
      if (!(v > 0) || !Number.isFinite(v)) continue
      if (v < low) low = v
      if (v > high) high = v
    }
  if (!(low <= high)) [low, high] = [1, 100]
  const logBase = high / low > 2_000 ? 10 : 2
  const power = (v: number, round: (x: number) => number) =>
    logBase ** round(Math.log(v) / Math.log(logBase))
  return {
    type: 'log',
    logBase,
    min: power(low * 0.97, Math.floor),
    max: power(high * 1.03, Math.ceil),
  }
}
