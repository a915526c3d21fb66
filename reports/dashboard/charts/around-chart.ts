/**
 * The capacity around the best: along one parameter, over two, and every trial across all of them.
 * Pure.
 */

import { getObjectiveUnit, type Objective, toDisplayedCost } from '../../../search/objective.ts'
import { parameterValues } from '../../../search/space/space.ts'
import type { Parameter } from '../../../search/types.ts'
import type { Candidate } from '../../recommendation/types.ts'
import type { Slice, Surface } from '../data/around.ts'
import { type Api, whiskers } from './matters-chart.ts'
import {
  axis,
  base,
  type ChartOption,
  colour,
  compact,
  legend,
  logAxis,
  symbol,
  type Theme,
  yAxis,
} from './theme.ts'

/** What the model believes with its 90 % interval, and the trials that lie there; log axis. */
export function sliceOption({ parameter, values, at }: Slice, theme: Theme): ChartOption {
  const tried = values.flatMap((value, i) =>
    value.tried.map(({ capacityRps, trial }) => [i, capacityRps, trial]),
  )
  const scale = logAxis([
    ...values.flatMap(({ low, high }) => [low, high]),
    ...tried.map(([, rps]) => rps!),
  ])
  return {
    ...base(theme),
    grid: { left: 52, right: 12, top: 12, bottom: 44 },
    xAxis: {
      type: 'category',
      data: values.map(({ value }) => String(value)),
      ...axis(parameter, theme, {
        axisLabel: {
          color: theme.muted,
          fontSize: 11,
          formatter: (text: string) => (text === String(at) ? `[${text}]` : text),
        },
      }),
    },
    yAxis: {
      ...scale,
      ...axis('', theme, { axisLabel: { color: theme.muted, formatter: compact } }),
    },
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `${compact(Number(v))} req/s`,
    },
    series: [
      {
        type: 'line',
        name: 'believed',
        color: colour(0, theme),
        symbolSize: 6,
        lineStyle: { width: values.some(({ value }) => typeof value === 'string') ? 0 : 1.5 },
        data: values.map(({ median }) => median),
      },
      whiskers(
        values.map((value, i) => [i, value]),
        'upright',
        theme,
      ),
      {
        type: 'scatter',
        name: 'measured',
        color: theme.text,
        symbol: 'emptyDiamond',
        symbolSize: 10,
        data: tried,
        z: 6,
      },
    ],
  }
}

/** Names of values longer than this are cut under their cells. */
const longest = 12
const short = (value: number | string): string => {
  const text = typeof value === 'number' ? compact(value) : value
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text
}

/**
 * A cell for each pair of values: its colour the capacity, the smaller the less is known of it; a
 * ring where it was measured.
 */
export function surfaceOption({ across, up, cells }: Surface, theme: Theme): ChartOption {
  const all = cells.flat()
  const [low, high] = [
    Math.min(...all.map(({ median }) => median)),
    Math.max(...all.map(({ median }) => median)),
  ]
  const share = (rps: number) => (high > low ? Math.log(rps / low) / Math.log(high / low) : 0.5)
  const data = cells.flatMap((row, v) =>
    row.map((cell, u) => [
      u,
      v,
      cell.median,
      knownShare(cell),
      cell.tried.length,
      cell.low,
      cell.high,
    ]),
  )
  const category = (values: readonly (number | string)[]) => ({
    type: 'category',
    data: values.map(short),
    splitArea: { show: false },
  })
  return {
    ...base(theme),
    grid: { left: 84, right: 16, top: 12, bottom: 48 },
    xAxis: {
      ...category(across.values),
      ...axis(across.parameter, theme, {
        axisLabel: { color: theme.muted, fontSize: 11, interval: 0 },
      }),
    },
    yAxis: {
      ...category(up.values),
      ...yAxis(up.parameter, theme, {
        nameGap: 66,
        axisLabel: { color: theme.muted, fontSize: 11, interval: 0 },
      }),
    },
    tooltip: {
      trigger: 'item',
      confine: true,
      renderMode: 'richText',
      formatter: ({ value: [u, v, median, , tried, from, to] }: { value: number[] }) =>
        `${across.parameter} ${across.values[u!]}, ${up.parameter} ${up.values[v!]}\n${compact(median!)} req/s [${compact(from!)} to ${compact(to!)}]${tried! > 0 ? ', measured' : ''}`,
    },
    series: [
      {
        type: 'custom',
        name: 'capacity',
        data,
        encode: { x: 0, y: 1 },
        renderItem: (_: unknown, api: Api & { size(of: number[]): number[] }) =>
          cellOf(api, share(api.value(2)), theme),
      },
    ],
  }
}

/** 1: known to the last digit; 0: to a factor of three and more. */
const knownShare = ({ low, high }: { readonly low: number; readonly high: number }): number =>
  Math.max(0, 1 - Math.log(high / low) / Math.log(9))

function cellOf(api: Api & { size(of: number[]): number[] }, share: number, theme: Theme): object {
  const [x, y] = api.coord([api.value(0), api.value(1)]) as [number, number]
  const [wide, high] = api.size([1, 1]) as [number, number]
  const size = 0.35 + 0.6 * api.value(3)
  const [width, height] = [size * wide, size * high]
  const shape = { x: x - width / 2, y: y - height / 2, width, height, r: 2 }
  const measured = api.value(4) > 0
  return {
    type: 'group',
    children: [
      {
        type: 'rect',
        shape,
        style: {
          fill: theme.accent,
          opacity: 0.08 + 0.5 * share,
          ...(measured && { stroke: theme.text, lineWidth: 2 }),
        },
      },
      ...(measured
        ? [{ type: 'rect', shape, style: { fill: 'none', stroke: theme.text, lineWidth: 2 } }]
        : []),
      {
        type: 'text',
        style: {
          text: compact(Number(api.value(2).toPrecision(3))),
          x,
          y,
          align: 'center',
          verticalAlign: 'middle',
          fill: theme.text,
          fontSize: 11,
        },
      },
    ],
  }
}

interface ParallelInput {
  readonly parameters: readonly Parameter[]
  readonly candidates: readonly Candidate[]
  readonly best: Candidate | undefined
  readonly objective: Objective
}

/** More lines are a blot; those left out are said beside the chart. */
export const mostLines = 600
/** More values are an axis of numbers. */
const mostNames = 16

/**
 * Every configuration as a line over its parameters, its capacity and what it costs. A line can be
 * held to a part of any axis by a drag along it.
 */
export function parallelOption(
  { parameters, candidates, best, objective }: ParallelInput,
  theme: Theme,
): ChartOption {
  const varying = parameters.filter(
    (p) => new Set(candidates.map(({ configuration }) => configuration[p.name])).size > 1,
  )
  const drawn = evenly(candidates, mostLines)
  const style = {
    nameTextStyle: { color: theme.text, fontSize: 11 },
    axisLine: { lineStyle: { color: theme.muted } },
    axisLabel: { color: theme.text, fontSize: 11 },
  }
  const figures = ['req/s', '$/h', getObjectiveUnit(objective)]
  const figuresOf = (c: Candidate) => [
    c.capacityRps,
    c.pricePerHour,
    c.feasible ? toDisplayedCost(objective, c.cost) : Number.NaN,
  ]
  const scales = varying.map((parameter) => scaleOf(parameter, candidates))
  const row = (c: Candidate) => [
    ...varying.map(({ name }, i) => placeOf(c.configuration[name], scales[i]!)),
    ...figuresOf(c),
    c.trial,
  ]
  const kinds = [
    {
      name: 'meets the SLO',
      of: (c: Candidate) => c.feasible && c !== best,
      line: { color: colour(0, theme), width: 1.2, opacity: 0.45 },
    },
    {
      name: 'no candidate',
      of: (c: Candidate) => !c.feasible,
      line: { color: theme.muted, width: 1, opacity: 0.5, type: 'dashed' },
    },
    {
      name: 'recommended',
      of: (c: Candidate) => c === best,
      line: { color: theme.good, width: 4, opacity: 1 },
    },
  ]
  return {
    ...base(theme),
    legend: legend(theme, { data: kinds.map(({ name }) => name) }),
    parallel: { left: 48, right: 64, top: 64, bottom: 24 },
    parallelAxis: [
      ...varying.map((parameter, dim) => ({
        dim,
        name: parameter.name,
        ...scales[dim]!,
        ...style,
      })),
      ...figures.map((name, i) => ({
        dim: varying.length + i,
        name,
        ...logAxis(candidates.map((c) => figuresOf(c)[i]!)),
        ...style,
        axisLabel: { ...style.axisLabel, formatter: compact },
      })),
    ],
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    series: kinds.map(({ name, of, line }) => ({
      type: 'parallel',
      name,
      symbol: symbol(0),
      progressive: 0,
      lineStyle: line,
      color: line.color,
      emphasis: { lineStyle: { width: 3, opacity: 1 } },
      inactiveOpacity: 0.04,
      activeOpacity: 0.9,
      data: drawn.filter(of).map(row),
    })),
  }
}

/** On an axis of names a number would be a place in the list. */
const placeOf = (value: number | string | undefined, { type }: Scale): number | string =>
  value === undefined ? '-' : type === 'category' ? String(value) : value

interface Scale {
  readonly type: string
  readonly data?: readonly string[]
}

/** Few values are names in their order, for their distances say nothing; many are numbers. */
function scaleOf(parameter: Parameter, candidates: readonly Candidate[]): Scale {
  const tried = [
    ...new Set(candidates.flatMap(({ configuration }) => configuration[parameter.name] ?? [])),
  ]
  if (tried.every((value) => typeof value === 'number') && tried.length > mostNames)
    return tried.every((value) => value > 0) ? logAxis(tried) : unzeroed
  const order = parameterValues(parameter) ?? []
  const rank = (value: number | string) => order.indexOf(value as never)
  const sorted = tried.every((value) => typeof value === 'number')
    ? [...tried].sort((a, b) => a - b)
    : [...tried].sort((a, b) => rank(a) - rank(b))
  return { type: 'category', data: sorted.map(String) }
}

/** From the least to the most. */
const unzeroed = { type: 'value', scale: true }

function evenly<T>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all
  return Array.from({ length: most }, (_, i) => all[Math.floor((i * all.length) / most)]!)
}
